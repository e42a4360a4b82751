"""
A master for tests that speaks the legacy protocol, of bytes that are given.

It does what formats 6.5 says of a Java master and no more: answers a handshake with
its epochs, begins where the first report says, sends blocks that end with their
epoch, and heartbeats.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from pystore.epochs.table import EpochTable
from pystore.ha.wire.legacy import (
    LegacyAck,
    LegacyData,
    LegacyEpochs,
    decode_ack,
    decode_handshake,
    encode_legacy,
)


@dataclass
class LegacyMaster:
    """
    A log, and what is said about it.

    Attributes:
        log: its bytes from `min_offset` on.
        epochs: (epoch, start offset) of each.
        min_offset: of its first segment.
        block_bytes: of a block at most.
        limit: no byte from this offset on is sent, for waiting slaves.
        confirm: what it confirms at most.
        acks: every report that came.
        links: how many slaves shook hands.
    """

    log: bytes
    epochs: list[tuple[int, int]]
    min_offset: int = 0
    block_bytes: int = 32 * 1024
    limit: int = 2**62
    confirm: int = 2**62
    acks: list[int] = field(default_factory=list)
    links: int = 0

    @property
    def end(self) -> int:
        """
        Of its log.
        """
        return self.min_offset + len(self.log)

    def block_at(self, offset: int) -> bytes:
        """
        What one frame sends from an offset on.
        """
        ends = [start for _, start in self.epochs if start > offset]
        stop = min([offset + self.block_bytes, self.end, self.limit, *ends])
        return self.log[offset - self.min_offset : stop - self.min_offset]


class MasterLink:
    """
    The master's end of one link. One thread.

    Args:
        master: whose.
        link: the socket; it does not block.
    """

    def __init__(self, master: LegacyMaster, link: socket.socket) -> None:
        self._master = master
        self._link = link
        self._link.setblocking(False)  # noqa: FBT003
        self._heard = bytearray()
        self._is_shaken = False
        self._position: int | None = None
        self._has_rested = False

    def step(self) -> bool:
        """
        Hears what there is to hear, and sends one frame if one is due.

        Returns:
            Whether there is more to do at once.
        """
        with suppress(BlockingIOError):  # nothing to hear
            heard = self._link.recv(65536)
            if not heard:
                raise ConnectionError("the slave closed the connection")
            self._heard += heard
            self._hear()
        if self._position is None:
            return False
        block = self._master.block_at(self._position)
        if block or not self._has_rested:
            self._send_block(block)
        self._has_rested = not block
        return bool(block)

    def _hear(self) -> None:
        if not self._is_shaken:
            if decode_handshake(memoryview(bytes(self._heard))) is None:
                return
            del self._heard[:16]
            self._is_shaken = True
            self._master.links += 1
            last = self._master.epochs[-1][0] if self._master.epochs else -1
            answer = LegacyEpochs(self._master.end, last, tuple(self._master.epochs))
            self._send(encode_legacy(answer))
        while found := decode_ack(memoryview(bytes(self._heard))):
            del self._heard[: found[1]]
            self._note(found[0])

    def _note(self, ack: LegacyAck) -> None:
        self._master.acks.append(ack.offset)
        if self._position is None:
            self._position = ack.offset or self._master.min_offset

    def _send_block(self, block: bytes) -> None:
        assert self._position is not None
        entry = EpochTable.of(self._master.epochs).find(self._position)
        assert entry is not None
        self._send(
            encode_legacy(
                LegacyData(
                    self._position,
                    entry.epoch,
                    entry.start_offset,
                    min(self._master.end, self._master.confirm),
                    block,
                )
            )
        )
        self._position += len(block)

    def _send(self, data: bytes) -> None:
        self._link.setblocking(True)  # noqa: FBT003
        self._link.sendall(data)
        self._link.setblocking(False)  # noqa: FBT003


@contextmanager
def listening(answer: Callable[[socket.socket], object]) -> Iterator[int]:
    """
    Yields a port of this machine; each link goes to *answer*, in a thread of its own.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        is_over = threading.Event()
        thread = threading.Thread(target=_accept, args=(server, answer, is_over))
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            is_over.set()
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def _accept(
    server: socket.socket,
    answer: Callable[[socket.socket], object],
    is_over: threading.Event,
) -> None:
    while not is_over.is_set():
        with suppress(OSError):  # the slave died, or the test is over
            link, _ = server.accept()
            with link:
                answer(link)


@contextmanager
def serving(master: LegacyMaster) -> Iterator[int]:
    """
    Yields the port where a master serves one slave after the other.
    """
    is_over = threading.Event()

    def answer(link: socket.socket) -> None:
        end = MasterLink(master, link)
        while not is_over.is_set():
            if not end.step():
                time.sleep(0.005)

    with listening(answer) as port:
        try:
            yield port
        finally:
            is_over.set()
