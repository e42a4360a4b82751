"""
One accepted link at work: what a slave may do to it, and what it leaves behind.
"""

from __future__ import annotations

import socket
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from lib.ha.master_fixture import EPOCH, MasterStage
from lib.ha.scripted_slave import RawSlave
from lib.store.stores import fill, message

from pystore.errors import LocalViolation
from pystore.ha.wire.codes import (
    AckFlag,
    AckStatus,
    CheckResult,
    DataFlag,
    SlaveFlag,
    State,
)
from pystore.ha.wire.frames import QueryEpoch
from pystore.ha.wire.legacy import LegacyAck, LegacyHandshake, encode_legacy


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[MasterStage]:
    """A master with 100 records, whose set is left to itself."""
    with MasterStage(tmp_path / "master", ask=None) as made:
        fill(made.log, 100)
        yield made


def reason(stage: MasterStage) -> str:
    """Why the only link ended, once it has."""
    stage.wait_for_links(0)
    (line,) = stage.said
    return line.partition(": ")[2]


class TestEnds:
    """How a link ends, and what people are told."""

    @pytest.mark.parametrize(
        ("raw", "why"),
        [
            (b"GET / HTTP/1.1\r\n\r\n", "a frame of 1195725856 bytes"),
            (bytes(4), "a frame of 0 bytes"),
            (b"\0\0\0\x01\0\x07\0\0" + bytes(8), "no handshake of a slave"),
            (encode_legacy(LegacyAck(5)), "a frame of 2 bytes"),
        ],
    )
    def test_garbage_closes_the_connection_with_a_line(
        self, stage: MasterStage, raw: bytes, why: str
    ) -> None:
        """With what was wrong with it."""
        with stage.dial() as slave:
            slave.sendall(raw)
            assert slave.recv(100) == b""

        assert why in reason(stage)

    def test_a_silent_slave_is_closed(self, tmp_path: Path) -> None:
        """A port scanner holds no thread for long."""
        config = {"reply_ms": 30}
        with MasterStage(tmp_path, config) as stage, stage.dial() as slave:
            assert slave.recv(100) == b""
            assert reason(stage) == "the slave sent nothing for too long"

    def test_a_slave_that_stops_in_the_handshake_is_closed(
        self, tmp_path: Path
    ) -> None:
        """By the clock of the service."""
        with MasterStage(tmp_path) as stage, RawSlave(stage) as slave:
            slave.greet()
            stage.skip(5_001)
            assert slave.is_closed()
            assert "sent nothing for" in reason(stage)

    def test_a_half_open_link_is_closed(self, stage: MasterStage) -> None:
        """RMQ-R194: bytes without an ack prove no living peer."""
        with RawSlave(stage).begin() as slave:
            stage.skip(20_001)
            assert slave.is_closed()

        assert "sent nothing for 2" in reason(stage)

    def test_a_refusal_arrives_before_the_link_is_closed(
        self, stage: MasterStage
    ) -> None:
        """Although the slave sent more than was read."""
        with RawSlave(stage, cluster="x") as slave:
            slave.greet_with(QueryEpoch(1), 1_000)
            answer = slave.answer()
            assert slave.is_closed()

        assert answer.result is CheckResult.CLUSTER_NAME

    def test_a_slave_that_queries_and_never_reads_is_closed(
        self, stage: MasterStage
    ) -> None:
        """Answers are not piled up for it."""
        with RawSlave(stage) as slave:
            slave.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slave.greet()
            try:
                slave.ask(QueryEpoch(slave.session_id), 1_000_000)
            except OSError:  # closed while we were talking
                assert "does not read" in reason(stage)
            else:
                pytest.fail("a million answers were piled up")

    def test_the_reason_of_a_slave_that_closes_with_unread_bytes_is_known(
        self, stage: MasterStage
    ) -> None:
        """It comes with the reset of the connection, and an append meets that first."""
        tries, is_over = 100, threading.Event()

        def append() -> None:
            while not is_over.is_set():
                stage.log.append(message(1))

        thread = threading.Thread(target=append)
        thread.start()
        try:
            for _ in range(tries):
                with RawSlave(stage).begin() as slave:
                    slave.data()
                    slave.ack(0, status=AckStatus.DISK_FULL)
                stage.wait_for_links(0)
        finally:
            is_over.set()
            thread.join()

        reasons = [line.partition(": ")[2] for line in stage.said]
        assert tries == sum("DISK_FULL" in reason for reason in reasons), reasons

    def test_a_slave_that_leaves_is_no_surprise(self, stage: MasterStage) -> None:
        """It said so."""
        with RawSlave(stage).begin() as slave:
            slave.read_to(stage.log.end_offset)
            slave.ack(stage.log.end_offset, flags=AckFlag.LEAVING)
            assert slave.is_closed()

        assert reason(stage) == "the slave ended the session"

    def test_an_ack_of_what_was_not_sent_ends_the_session(
        self, stage: MasterStage
    ) -> None:
        """RMQ-R130: it moved nothing."""
        with RawSlave(stage).begin() as slave:
            slave.ack(stage.log.end_offset + 1)
            assert slave.is_closed()

        assert "an ack of" in reason(stage)
        assert stage.service.monitor.set_view().sessions == {}


class TestBytes:
    """What goes out."""

    def test_an_append_wakes_a_sender_that_sleeps(self, stage: MasterStage) -> None:
        """No clock is needed for it: the service's stands still."""
        stage.clock.freeze()
        with RawSlave(stage).begin() as slave:
            slave.read_to(stage.log.end_offset)
            for number in range(20):
                begin = stage.log.end_offset
                end = stage.log.append(message(number)).end

                assert len(slave.read_to(end)) == end - begin

    def test_the_checksum_of_a_block_is_right(self, tmp_path: Path) -> None:
        """The frame's decoder compares nothing, so the slave does."""
        config = {"has_block_crc": True}
        with (
            MasterStage(tmp_path, config) as stage,
            RawSlave(stage, flags=SlaveFlag.BLOCK_CRC).begin() as slave,
        ):
            fill(stage.log, 10)
            data = slave.data()

            assert zlib.crc32(data.block) == data.crc

    def test_flow_control_holds_the_rest_back(self, tmp_path: Path) -> None:
        """A burst, and then what the clock allows."""
        with MasterStage(tmp_path, bytes_per_second=10_000, ask=None) as stage:
            fill(stage.log, 100)
            stage.clock.freeze()
            with RawSlave(stage).begin() as slave:
                sent = len(slave.data().block)
                stage.skip(50)
                more = len(slave.data().block)

            assert (sent, more) == (1_000, 500)

    def test_a_suspended_slave_hears_that_it_is(self, stage: MasterStage) -> None:
        """And goes on where it was."""
        with RawSlave(stage).begin() as slave:
            slave.read_to(stage.log.end_offset)
            (link,) = stage.service.links()
            link.suspend(is_suspended=True)
            assert slave.data().flags is DataFlag.SUSPENDED
            assert link.state is State.SUSPEND
            end = stage.log.append(message(1)).end
            link.suspend(is_suspended=False)

            assert slave.data().block == b""
            assert slave.read_to(end)

    def test_a_slave_that_acks_wait_for_is_not_suspended(self, tmp_path: Path) -> None:
        """RMQ-K.3: the operator is told to remove it first."""
        with MasterStage(tmp_path) as stage, RawSlave(stage).begin() as slave:
            slave.ack(0)
            stage.controller.wait_for({1, 2})
            (link,) = stage.service.links()

            with pytest.raises(LocalViolation, match="broker 2 is in the SyncStateSet"):
                link.suspend(is_suspended=True)

    def test_a_legacy_slave_is_served_at_the_same_port(
        self, stage: MasterStage
    ) -> None:
        """By its first four bytes, even if they come one by one."""
        raw = encode_legacy(LegacyHandshake(2))
        with stage.dial() as slave:
            for byte in raw:
                slave.sendall(bytes([byte]))
            answer = slave.recv(100)

        assert answer[:4] == (1).to_bytes(4, "big")
        assert answer[16:20] == EPOCH.to_bytes(4, "big")
