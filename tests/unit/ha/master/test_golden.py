"""
Our master in the place of RocketMQ's, before recorded Java slaves.

The same log, the same slave's bytes, block sizes as recorded: every byte of the log
that went out then goes out now, and every header that differs is explained.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from lib.oracle.ha_captures import CAPTURES, Capture, frames_of
from lib.values import replace

from pystore.epochs.table import EpochTable
from pystore.ha.master.config import MasterConfig, SetView
from pystore.ha.master.effects import CloseLink, MasterLog, SendBlock
from pystore.ha.master.protocol_legacy import LegacyMasterProtocol
from pystore.ha.wire.effects import Send
from pystore.ha.wire.legacy import (
    LegacyAck,
    LegacyData,
    LegacyEpochs,
    LegacyHandshake,
    decode_from_master,
    encode_legacy,
)

# What differs from Java's headers, per scenario:
# "RMQ-R191": the last block of an epoch has the label of the next one there.
# "announced": our frame without a block where the epoch changes (RMQ-R191, Do).
# "empty": a heartbeat of a master without bytes names an epoch there.
EXPECTED = {
    "empty-master": {"empty": 2},
    "epoch-change-reconnect": {"RMQ-R191": 1, "announced": 1},
    "fresh-multi-epoch": {"RMQ-R191": 3, "announced": 3},
    "prefix-deleted": {"RMQ-R191": 2, "announced": 2},
    "slave-behind": {"RMQ-R191": 2, "announced": 2},
}
HEARTBEAT_MS = 1000


class Replay:
    """One recorded connection, with our master in it."""

    def __init__(self, capture: Capture, folder: Path) -> None:
        config = capture.scenario["config"]
        self.store = capture.extract("master-after", folder)
        self.segment_size = int(config["mappedFileSizeCommitLog"])
        self.master_id = capture.scenario["masterBrokerId"]
        self.slave_id = capture.scenario["slaveBrokerId"]
        state = capture.scenario["masterBefore"]
        self.min_offset = max(state["minPhyOffset"], 0)
        self.differences: Counter[str] = Counter()
        self.now_ms = 0

    def bytes_at(self, offset: int, size: int) -> bytes:
        """The master's log."""
        base = offset - offset % self.segment_size
        raw = (self.store / "commitlog" / f"{base:020}").read_bytes()
        return raw[offset - base : offset - base + size]

    def run(self, slave: bytes, master: bytes) -> None:
        """Plays a connection, frame by frame of the recorded master."""
        self.said = [
            frame
            for frame, _ in frames_of(slave, is_master=False)
            if isinstance(frame, LegacyHandshake | LegacyAck)
        ]
        frames = list(frames_of(master, is_master=True))
        assert isinstance(frames[0][0], LegacyEpochs)
        self.log = self._log(frames[0][0])
        self.connection = self._connection()
        self.sent = 0
        for frame, raw in frames:
            if isinstance(frame, LegacyEpochs):
                self._answer(raw)
            elif isinstance(frame, LegacyData):
                self._data(frame, raw)
        assert [] == self.said

    def _log(self, table: LegacyEpochs) -> MasterLog:
        end = table.end_offset
        epochs = EpochTable.of(table.entries)
        return MasterLog(self.min_offset, end, end, end, epochs, self.segment_size)

    def _connection(self) -> LegacyMasterProtocol:
        config = MasterConfig(
            cluster="",
            broker_name="",
            broker_id=self.master_id,
            epoch=self.log.epochs.last_epoch,
            segment_size=self.segment_size,
            heartbeat_ms=HEARTBEAT_MS,
            housekeeping_ms=10**6,
        )
        set_view = SetView(frozenset({self.master_id, self.slave_id}))
        return LegacyMasterProtocol(config, lambda: set_view, 1, 0)

    def _hear(self, frame: LegacyHandshake | LegacyAck) -> list[bytes]:
        raw = encode_legacy(frame)
        taken = self.connection.receive(memoryview(raw), self.log, self.now_ms)
        effects = self.connection.effects()
        assert taken == len(raw), effects
        assert not any(isinstance(effect, CloseLink) for effect in effects)
        return [effect.data for effect in effects if isinstance(effect, Send)]

    def _answer(self, raw: bytes) -> None:
        shake = self.said.pop(0)
        assert isinstance(shake, LegacyHandshake)
        assert self._hear(shake) == [raw]

    def _acks(self) -> None:
        # An ack speaks of bytes that the recorded master had sent by then.
        while self.said:
            ack = self.said[0]
            assert isinstance(ack, LegacyAck)
            if ack.offset > self.sent:
                return
            self._hear(self.said.pop(0))

    def _data(self, theirs: LegacyData, raw: bytes) -> None:
        if self.connection.state.name == "HANDSHAKE":
            self._hear(self.said.pop(0))
        end = theirs.offset + len(theirs.block)
        self.log = replace(
            self.log,
            end_offset=max(self.log.end_offset, end, theirs.confirm_offset),
            confirm_offset=theirs.confirm_offset,
        )
        if not theirs.block:
            self._compare(self._heartbeat(), theirs, raw)
            self.sent = max(end, 0)
            self._acks()
            return
        block = self._block(len(theirs.block))
        if not block.size:
            self.differences["announced"] += 1
            block = self._block(len(theirs.block))
        self._compare(block, theirs, raw)
        self.sent = end
        self._acks()

    def _block(self, size: int) -> SendBlock:
        block = self.connection.next_block(self.log, size, self.now_ms)
        assert block is not None, self.connection.effects()
        return block

    def _heartbeat(self) -> SendBlock:
        self.now_ms += HEARTBEAT_MS
        self.connection.tick(self.log, self.now_ms)
        (block,) = self.connection.effects()
        assert isinstance(block, SendBlock)
        return block

    def _compare(self, block: SendBlock, theirs: LegacyData, raw: bytes) -> None:
        bytes_sent = self.bytes_at(block.offset, block.size) if block.size else b""
        assert bytes_sent == theirs.block
        if block.head + bytes_sent == raw:
            return
        taken = decode_from_master(memoryview(block.head + bytes_sent), 1 << 22)
        assert taken is not None
        ours = taken[0]
        assert isinstance(ours, LegacyData)
        self.differences[self._why(ours, theirs)] += 1

    def _why(self, ours: LegacyData, theirs: LegacyData) -> str:
        relabelled = replace(ours, epoch=theirs.epoch, epoch_start=theirs.epoch_start)
        assert relabelled == theirs, "more than the label differs"
        if ours.offset == -1:
            return "empty"
        end = theirs.offset + len(theirs.block)
        own = self.log.epochs.find(ours.offset)
        assert own is not None
        assert (own.epoch, own.start_offset) == (ours.epoch, ours.epoch_start)
        assert theirs.block
        assert end == theirs.epoch_start == self.log.epochs.end_of(own)
        return "RMQ-R191"


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda capture: capture.name)
def test_a_java_slave_gets_what_javas_master_sent(
    capture: Capture, tmp_path: Path
) -> None:
    """Answers byte for byte, all of the log, and headers but for known mistakes."""
    replay = Replay(capture, tmp_path)
    for slave, master in capture.streams():
        replay.run(slave, master)

    if capture.name != "no-consistent-point":  # there the slave says no more
        assert capture.scenario["masterAfter"]["maxPhyOffset"] == replay.sent
    assert EXPECTED.get(capture.name, {}) == dict(replay.differences)
