"""
One link's bytes over a real socket: pieces, blocks, and peers that do not behave.
"""

from __future__ import annotations

import random
import socket
import threading
import zlib
from collections.abc import Iterator
from itertools import count

import pytest
from lib.ha.master_bench import content

from pystore.errors import OffsetOutOfRange
from pystore.ha.master.effects import SendBlock
from pystore.ha.master.transport import LinkLost, SlaveSocket, listen

WAIT_S = 20


def acquire(offset: int, size: int) -> memoryview:
    """A log that holds everything."""
    return memoryview(content(offset, size))


@pytest.fixture
def ends() -> Iterator[tuple[SlaveSocket, socket.socket]]:
    """A wire, and the slave's end of it."""
    with listen("127.0.0.1", 0) as server:
        slave = socket.create_connection(server.getsockname(), timeout=WAIT_S)
        connected, _ = server.accept()
        with slave, SlaveSocket(connected, 10_000) as wire:
            yield wire, slave


def read_all(slave: socket.socket) -> bytes:
    """Everything until the master has finished."""
    found = bytearray()
    while piece := slave.recv(1 << 20):
        found += piece
    return bytes(found)


class TestReceiving:
    """Bytes come in, whatever the pieces."""

    def test_what_was_not_taken_stays_in_front(
        self, ends: tuple[SlaveSocket, socket.socket]
    ) -> None:
        """Half a frame waits for its other half."""
        wire, slave = ends
        slave.sendall(b"abcdef")
        while len(wire.data) < 6:
            wire.receive()
        wire.take(4)
        slave.sendall(b"gh")
        while len(wire.data) < 4:
            wire.receive()

        assert bytes(wire.data) == b"efgh"
        wire.take_all()
        assert len(wire.data) == 0

    def test_a_frame_longer_than_the_buffer_gets_room(
        self, ends: tuple[SlaveSocket, socket.socket]
    ) -> None:
        """The connection says which length is too long."""
        wire, slave = ends
        sent = content(0, 300_000)
        thread = threading.Thread(target=slave.sendall, args=(sent,))
        thread.start()
        while len(wire.data) < len(sent):
            wire.receive()
        thread.join()

        assert bytes(wire.data) == sent

    def test_a_peer_that_closes_is_gone(
        self, ends: tuple[SlaveSocket, socket.socket]
    ) -> None:
        """The reason names the side that ended it."""
        wire, slave = ends
        slave.close()

        with pytest.raises(LinkLost, match="the slave closed the connection"):
            wire.receive()

    def test_patience_ends(self, ends: tuple[SlaveSocket, socket.socket]) -> None:
        """A slave that connects and says nothing holds no thread for ever."""
        wire, _ = ends
        wire.patience_ms(20)

        with pytest.raises(LinkLost, match="the slave sent nothing for too long"):
            wire.receive()

    def test_hanging_up_wakes_the_receiving_thread(
        self, ends: tuple[SlaveSocket, socket.socket]
    ) -> None:
        """From any thread, and again is fine."""
        wire, _ = ends
        reasons: list[str] = []

        def receive() -> None:
            try:
                wire.receive()
            except LinkLost as error:  # what the test is about
                reasons.append(str(error))

        thread = threading.Thread(target=receive)
        thread.start()
        wire.hang_up()
        wire.hang_up()
        thread.join(WAIT_S)

        assert reasons == ["the slave closed the connection"]


class TestSending:
    """Frames go out, heads before blocks."""

    def test_heads_and_blocks_go_in_order(
        self, ends: tuple[SlaveSocket, socket.socket]
    ) -> None:
        """Bytes, a heartbeat, and blocks of the log, in one call."""
        wire, slave = ends
        frames: list[bytes | SendBlock] = [
            b"answer",
            SendBlock(b"beat", 0, 0, 0),
            SendBlock(b"one", 0, 1000, 3000),
            SendBlock(b"two", 1000, 2000, 3000),
        ]
        size = wire.send(frames, acquire)
        wire.finish()

        expected = b"answerbeatone" + content(0, 1000) + b"two" + content(1000, 2000)
        assert read_all(slave) == expected
        assert size == len(expected)

    def test_blocks_that_follow_one_another_are_acquired_together(
        self, ends: tuple[SlaveSocket, socket.socket]
    ) -> None:
        """Up to where the segment ends, and apart from those elsewhere."""
        wire, slave = ends
        asked: list[tuple[int, int]] = []

        def segmented(offset: int, size: int) -> memoryview:
            asked.append((offset, size))
            return acquire(offset, min(size, 100 - offset % 100))

        places = [(40, 30), (70, 30), (100, 20), (150, 10), (160, 5), (40, 0)]
        frames = [SendBlock(b"h", *place, 200) for place in places]
        wire.send([b"first", *frames, b"last"], segmented)
        wire.finish()

        blocks = b"".join(b"h" + content(*place) for place in places)
        assert read_all(slave) == b"first" + blocks + b"last"
        assert asked == [(40, 80), (100, 20), (150, 15)]

    def test_what_the_system_takes_in_parts_arrives_whole(self) -> None:
        """
        A call of the system says how far it came, in the middle of a block; the slave
        begins to read only then.
        """
        data = memoryview(random.Random(7).randbytes(16_000_000))
        frames = [SendBlock(b"head", n * 400_000, 400_000, 0) for n in range(40)]
        found: list[bytes] = []
        never = threading.Event()

        def read_late() -> None:
            never.wait(0.6)
            found.append(read_all(slave))

        with listen("127.0.0.1", 0) as server:
            slave = socket.create_connection(server.getsockname(), timeout=WAIT_S)
            connected, _ = server.accept()
            thread = threading.Thread(target=read_late)
            with slave, SlaveSocket(connected, 10_000) as wire:
                thread.start()
                wire.send(frames, lambda at, size: data[at : at + size])
                wire.finish()
                thread.join(WAIT_S)

        blocks = (b"head" + data[n * 400_000 :][:400_000] for n in range(40))
        assert found == [b"".join(blocks)]

    def test_the_checksum_is_put_into_the_head(
        self, ends: tuple[SlaveSocket, socket.socket]
    ) -> None:
        """Where the head keeps room for it."""
        wire, slave = ends
        wire.send([SendBlock(b"ab....cd", 7, 50, 0, crc_at=2)], acquire)
        wire.finish()
        crc = zlib.crc32(content(7, 50)).to_bytes(4, "big")

        assert read_all(slave) == b"ab" + crc + b"cd" + content(7, 50)

    def test_a_block_that_the_log_lost_ends_the_link(
        self, ends: tuple[SlaveSocket, socket.socket]
    ) -> None:
        """Retention was faster: the slave is told when it comes again."""
        wire, slave = ends

        def gone(offset: int, size: int) -> memoryview:
            raise OffsetOutOfRange(f"{offset} and {size} are below the minimum")

        with pytest.raises(LinkLost, match="the block cannot be read: 7 and 50"):
            wire.send([SendBlock(b"head", 7, 50, 0)], gone)
        with pytest.raises(
            LinkLost, match="the log has 49 bytes of a block of 50 bytes"
        ):
            wire.send([SendBlock(b"head", 7, 50, 0)], lambda at, n: acquire(at, n - 1))
        wire.finish()
        assert read_all(slave) == b""

    def test_a_peer_that_reads_nothing_is_given_up(self) -> None:
        """Its buffers are full, and time passes."""
        with listen("127.0.0.1", 0) as server:
            slave = socket.create_connection(server.getsockname())
            connected, _ = server.accept()
            with slave, SlaveSocket(connected, 50) as wire:
                frames = [SendBlock(b"head", 0, 1 << 20, 0)] * 64
                with pytest.raises(LinkLost, match="does not read what is sent"):
                    wire.send(frames, acquire)

    def test_one_send_has_one_deadline_however_slowly_the_peer_reads(self) -> None:
        """B13: each call of the system makes progress, and the clock runs on."""
        has_failed = threading.Event()

        def read_slowly() -> None:
            for _ in range(300):
                if has_failed.wait(0.01) or not slave.recv(100):
                    return
            # A send without a deadline ends, too, and the test fails.
            read_all(slave)

        with listen("127.0.0.1", 0) as server:
            slave = socket.socket()
            slave.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slave.connect(server.getsockname())
            connected, _ = server.accept()
            thread = threading.Thread(target=read_slowly)
            clock = count(0, 4_000)
            with slave, SlaveSocket(connected, 10_000, lambda: next(clock)) as wire:
                thread.start()
                frames = [SendBlock(b"head", 0, 1 << 20, 0)] * 16
                try:
                    with pytest.raises(LinkLost, match="does not read what is sent"):
                        wire.send(frames, acquire)
                finally:
                    has_failed.set()
                    wire.hang_up()
                    thread.join(WAIT_S)

        # The time when it began, and when the calls of the system returned.
        assert 16_000 == next(clock)

    def test_hanging_up_wakes_the_sending_thread(
        self, ends: tuple[SlaveSocket, socket.socket]
    ) -> None:
        """B13: in the middle of a call of the system."""
        wire, _ = ends
        reasons: list[str] = []

        def send() -> None:
            try:
                wire.send([SendBlock(b"head", 0, 1 << 20, 0)] * 64, acquire)
            except LinkLost as error:  # what the test is about
                reasons.append(str(error))

        thread = threading.Thread(target=send)
        thread.start()
        thread.join(0.5)
        assert thread.is_alive()
        wire.hang_up()
        thread.join(WAIT_S)

        assert ["the connection broke"] == [one.partition(":")[0] for one in reasons]

    def test_a_peer_that_is_gone_ends_the_link(
        self, ends: tuple[SlaveSocket, socket.socket]
    ) -> None:
        """An error of the socket is none of the store."""
        wire, slave = ends
        slave.close()
        with pytest.raises(LinkLost, match="the connection broke"):
            wire.send([bytes(1 << 20)] * 100, acquire)

    def test_a_closed_link_is_reported_as_closed(
        self, ends: tuple[SlaveSocket, socket.socket]
    ) -> None:
        """A late call gets an error of its own kind."""
        wire, _ = ends
        wire.close()
        wire.hang_up()

        with pytest.raises(LinkLost, match="the connection broke"):
            wire.send([b"x"], acquire)
        with pytest.raises(LinkLost, match="the connection broke"):
            wire.receive()


class TestListening:
    """Where a master listens."""

    def test_an_ipv6_address_is_listened_on(self) -> None:
        """As any other, where the system has it."""
        if not socket.has_ipv6:
            pytest.skip("no IPv6 here")
        try:
            server = listen("::1", 0)
        except OSError as error:  # built in, and turned off
            pytest.skip(f"no IPv6 here: {error}")
        with server:
            slave = socket.create_connection(server.getsockname()[:2])
            connected, _ = server.accept()
            with slave, SlaveSocket(connected, 1000) as wire:
                assert wire.peer.startswith("[::1]:")


def test_what_is_sent_at_once_waits_for_nobody(
    ends: tuple[SlaveSocket, socket.socket],
) -> None:
    """What the system does not take is kept, and goes before what comes next."""
    wire, slave = ends
    large = content(0, 16 << 20)
    assert wire.send_now([b"first"], acquire)
    assert not wire.send_now([large], acquire)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(read_all(slave)))
    reader.start()
    wire.send([b"last"], acquire)
    wire.finish()
    reader.join(WAIT_S)

    assert found == [b"first" + large + b"last"]
