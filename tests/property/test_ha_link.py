"""
A master and a slave of random histories, joined by a pipe that cuts bytes anywhere.

Whatever they held before: where they agree to go on the logs end equal, byte for
byte and epoch for epoch (RMQ-R275), and every ack and confirm offset was true.
"""

from __future__ import annotations

import random
import zlib
from dataclasses import dataclass

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from lib.ha.slave_owner import RECORD, Owner, ShortLog
from lib.values import replace

from pystore.epochs.table import EpochTable
from pystore.ha.insync.facts import SessionAcked, SessionOpened
from pystore.ha.master.config import MasterConfig, SetView
from pystore.ha.master.effects import CloseLink, MasterLog, SendBlock
from pystore.ha.master.protocol_legacy import LegacyMasterProtocol
from pystore.ha.master.protocol_v3 import V3MasterProtocol
from pystore.ha.slave.config import SlaveConfig
from pystore.ha.slave.protocol_legacy import LegacySlaveProtocol
from pystore.ha.slave.protocol_v3 import V3SlaveProtocol
from pystore.ha.wire.codes import State
from pystore.ha.wire.effects import Send

SEGMENT = 8 * RECORD
PROTOCOLS = pytest.mark.parametrize("protocol", ["v3", "legacy"])


@dataclass
class History:
    """A log and its epochs; the writer of an epoch decides its bytes."""

    data: bytes
    epochs: EpochTable

    def write(self, epoch: int, records: int) -> History:
        """With *records* more of a new epoch."""
        epochs = self.epochs.append(epoch, len(self.data))
        return History(self.data + self._of(epoch, records), epochs)

    def _of(self, epoch: int, records: int) -> bytes:
        begin = len(self.data)
        return bytes(
            (epoch * 31 + at * 7) & 0xFF
            for at in range(begin, begin + RECORD * records)
        )

    def go_on(self, records: int) -> History:
        """With more of the same epoch."""
        more = self._of(self.epochs.last_epoch, records)
        return History(self.data + more, self.epochs)


lengths = st.lists(st.integers(0, 12), max_size=4)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[History, History]:
    """
    A master's history and a slave's. They share a beginning; then each wrote, or
    not, in epochs of its own; the slave may have missed an end.
    """
    shared = History(b"", EpochTable())
    for epoch, records in enumerate(draw(lengths), 1):
        shared = shared.write(epoch, records)
    master = slave = shared
    for epoch, records in enumerate(draw(lengths), 10):
        master = master.write(2 * epoch, records)
    if draw(st.booleans()):
        for epoch, records in enumerate(draw(lengths), 10):
            slave = slave.write(2 * epoch + 1, records)
    else:
        missed = draw(st.integers(0, len(slave.data) // RECORD))
        end = len(slave.data) - RECORD * missed
        # A crash between an entry and its first byte leaves the entry (RMQ-R144).
        table = slave.epochs.cut_suffix(end + draw(st.integers(0, 1)))
        slave = History(slave.data[:end], table)
    return master.write(99, draw(st.integers(0, 6))), slave


class Pipe:
    """A master's connection and a slave's, and what is between them."""

    def __init__(
        self, protocol: str, master: History, slave: ShortLog, rng: random.Random
    ) -> None:
        self.rng, self.now_ms, self.min_offset = rng, 1_000, 0
        self.master = master
        config = MasterConfig(
            "c",
            "b",
            1,
            99,
            SEGMENT,
            block_bytes_max=50,
            has_block_crc=rng.random() < 0.5,
        )
        set_view = SetView(frozenset({1, 2}))
        is_v3 = protocol == "v3"
        kind = V3MasterProtocol if is_v3 else LegacyMasterProtocol
        self.ours = kind(config, lambda: set_view, 7, self.now_ms)
        ends = SlaveConfig("c", "b", 2, epoch=99, may_wipe=lambda: True)
        theirs = V3SlaveProtocol(ends) if is_v3 else LegacySlaveProtocol(ends)
        self.owner = Owner(theirs, slave)
        self.up = self.down = b""
        self.taken = 0
        self.facts: list[SessionOpened | SessionAcked] = []
        self.reason = ""

    def log(self) -> MasterLog:
        """How the master's log stands."""
        end = len(self.master.data)
        epochs = self.master.epochs
        return MasterLog(self.min_offset, end, end, end, epochs, SEGMENT)

    def run(self) -> None:
        """Until both are still, or one of them closed."""
        self.owner.connect()
        self.settle()

    def settle(self) -> None:
        """Moves bytes both ways, in pieces."""
        while not self.reason and not self.owner.closed:
            self.up += b"".join(self.owner.sent)
            self.owner.sent.clear()
            moved = self._upstream() or self._blocks() or self._downstream()
            if not moved:
                return

    def _upstream(self) -> bool:
        if not self.up or self.rng.random() < 0.3:
            return False
        size = self.rng.randint(1, len(self.up))
        taken = self.ours.receive(memoryview(self.up)[:size], self.log(), self.now_ms)
        if not taken and size == len(self.up):
            self._do()
            return bool(self.reason)
        self.up = self.up[taken:]
        self._do()
        return True

    def _blocks(self) -> bool:
        block = self.ours.next_block(
            self.log(), self.rng.choice([1, 7, 64, 999]), self.now_ms
        )
        if block is None:
            self._do()
            return False
        self._send(block)
        return True

    def _downstream(self) -> bool:
        size = self.rng.randint(1, len(self.down)) if self.down else 0
        self.owner.feed(self.down[:size])
        self.down = self.down[size:]
        return bool(size or self.owner.sent or self.up)

    def _do(self) -> None:
        for effect in self.ours.effects():
            if isinstance(effect, Send):
                self.down += effect.data
            elif isinstance(effect, SendBlock):
                self._send(effect)
            elif isinstance(effect, CloseLink):
                self.reason = effect.reason
            elif isinstance(effect, SessionOpened | SessionAcked):
                self._check(effect)

    def _send(self, block: SendBlock) -> None:
        begin = max(block.offset, 0)
        data = self.master.data[begin : begin + block.size]
        head = bytearray(block.head)
        if block.crc_at is not None:
            # As the transport does.
            head[block.crc_at : block.crc_at + 4] = zlib.crc32(data).to_bytes(4)
        self.down += bytes(head) + data

    def _check(self, fact: SessionOpened | SessionAcked) -> None:
        held = fact.offset if isinstance(fact, SessionOpened) else fact.received_offset
        view = self.owner.log.view()
        assert held is None or held <= max(view.received_offset, self.min_offset)
        self.facts.append(fact)

    def pass_time(self, ms: int) -> None:
        """Heartbeats and reports."""
        self.now_ms += ms
        self.ours.tick(self.log(), self.now_ms)
        self._do()
        self.owner.pass_time(ms)
        self.settle()


def slave_log(slave: History) -> ShortLog:
    """A slave's log in memory, all of it durable and unconfirmed."""
    return ShortLog(slave.data, slave.epochs, segment_size=SEGMENT)


def with_bytes(epochs: EpochTable, end: int) -> list[tuple[int, int]]:
    """The entries that have a byte."""
    return [pair for pair in epochs.pairs() if pair[1] < end]


@PROTOCOLS
@given(pairs(), st.integers(1, 9), st.integers(0, 2**32))
def test_where_histories_meet_the_logs_end_equal(
    protocol: str, pair: tuple[History, History], more: int, seed: int
) -> None:
    """Caught up, then appended to, then caught up again."""
    master, slave = pair
    note(f"{protocol}: master {master.epochs.pairs()}, slave {slave.epochs.pairs()}")
    log = slave_log(slave)
    pipe = Pipe(protocol, master, log, random.Random(seed))
    pipe.run()
    pipe.pass_time(5_000)
    if pipe.owner.closed or pipe.reason:
        # No common epoch: refused, and nothing of the master's came.
        assert not set(master.epochs.pairs()) & set(slave.epochs.pairs()) or not (
            with_bytes(slave.epochs, len(slave.data))
        )
        return
    assert pipe.ours.state is State.TRANSFER
    pipe.master = master.go_on(more)
    pipe.settle()
    for _ in range(3):
        pipe.pass_time(5_000)

    end = len(pipe.master.data)
    assert bytes(log.data) == pipe.master.data
    assert with_bytes(log.epochs, end) == with_bytes(pipe.master.epochs, end)
    last = [fact for fact in pipe.facts if isinstance(fact, SessionAcked)][-1]
    assert last.received_offset == end
    assert last.caught_up_ms is not None
    assert last.caught_up_ms >= pipe.now_ms - 5_000


@PROTOCOLS
@given(st.integers(1, 40), st.integers(0, 40), st.integers(0, 2**32))
def test_a_slave_below_the_minimum_is_never_sent_a_byte(
    protocol: str, records: int, held: int, seed: int
) -> None:
    """RMQ-R100: it begins anew, or is told why not."""
    master = History(b"", EpochTable()).write(99, 100)
    slave = replace(master, data=master.data[: RECORD * min(held, records)])
    log = slave_log(slave)
    pipe = Pipe(protocol, master, log, random.Random(seed))
    pipe.min_offset = RECORD * records - RECORD * records % SEGMENT
    pipe.run()
    pipe.pass_time(5_000)
    view = log.view()

    if pipe.owner.closed or pipe.reason:
        assert bytes(log.data) in (slave.data, b"")
        assert len(slave.data) < pipe.min_offset
    else:
        assert bytes(log.data) == master.data[view.min_offset :]
        assert view.end_offset == len(master.data)
