"""
RMQ-R275: bytes below the consistent point of two replicas of a set are equal.

Three replicas take turns as master, under ever higher epochs; slaves follow through
real connections for a while, links break inside records, masters write and are
replaced before any slave has their bytes. Empty epochs come up as well.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from lib.ha.slave_owner import RECORD, Owner, ShortLog

from pystore.ha.slave.config import SlaveConfig
from pystore.ha.slave.effects import Retry
from pystore.ha.slave.protocol_v3 import V3SlaveProtocol
from pystore.ha.wire.codes import CheckResult, DataFlag, EpochsFlag, MasterFlag
from pystore.ha.wire.decoder import take_frame
from pystore.ha.wire.frames import (
    Body,
    ConfirmTruncate,
    Frame,
    HandshakeMaster,
    QueryEpoch,
    ReturnEpoch,
    TransferData,
)
from pystore.ha.wire.v3 import encode

REPLICAS = 3

steps = st.lists(
    st.one_of(
        st.tuples(st.just("elect"), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("write"), st.integers(0, 2), st.integers(1, 3)),
        st.tuples(st.just("follow"), st.integers(0, 2), st.integers(0, 60)),
    ),
    min_size=4,
    max_size=40,
)


class Set:
    """
    Replicas, and the master of each epoch. A replaced master goes on writing until it
    learns of that: no slave follows it any more.
    """

    def __init__(self) -> None:
        self.logs = [ShortLog() for _ in range(REPLICAS)]
        self.masters: dict[int, int] = {}
        self.epoch = 0
        self.written = 0

    def elect(self, replica: int) -> None:
        """A replica becomes master at its end, of whole records."""
        log = self.logs[replica]
        self.epoch += 1
        end = log.view().end_offset
        del log.data[end:]
        log.epochs = log.epochs.drop_above(end).append(self.epoch, end)
        log.promised = self.epoch
        self.masters[replica] = self.epoch

    def write(self, replica: int, count: int) -> None:
        """A master writes records that no other replica writes."""
        if replica in self.masters:
            for _ in range(count):
                self.written += 1
                self.logs[replica].data += self.written.to_bytes(RECORD, "big")

    def follow(self, replica: int, size: int) -> None:
        """A replica follows the newest master, up to so many bytes."""
        master = next((r for r, e in self.masters.items() if e == self.epoch), replica)
        if master == replica:
            return
        self.masters.pop(replica, None)
        config = SlaveConfig("c", "b", replica + 1, epoch=self.epoch)
        owner = Owner(V3SlaveProtocol(config), self.logs[replica])
        before = bytes(self.logs[replica].data)
        owner.connect()
        Following(self.logs[master], self.epoch, owner).run(size)
        if owner.closed is None:
            owner.connection.lost("cut")
            return
        # Only a log without anything in common is left alone, as it was.
        assert owner.closed.retry is Retry.OPERATOR, owner.closed
        assert before == bytes(self.logs[replica].data)


class Following:
    """
    A master that answers a slave's frames from its log.
    """

    def __init__(self, log: ShortLog, epoch: int, owner: Owner) -> None:
        self.log, self.epoch, self.owner = log, epoch, owner

    def say(self, body: Body) -> None:
        """One frame."""
        self.owner.feed(encode(Frame(self.epoch, 0, body)))

    def run(self, size: int) -> None:
        """The whole session; *size* bytes of data at most."""
        view = self.log.view()
        end = view.end_offset
        self.say(
            HandshakeMaster(
                CheckResult.SUCCESS,
                3,
                99,
                1,
                0,
                0,
                end,
                0,
                view.segment_size,
                1 << 20,
                5_000,
                20_000,
                MasterFlag(0),
                "",
                "",
            )
        )
        ranges = [(e.epoch, e.start_offset) for e in view.epochs.entries]
        ends = [start for _, start in ranges[1:]] + [end]
        entries = [(*pair, to) for pair, to in zip(ranges, ends, strict=True)]
        while isinstance(query := self.last(), QueryEpoch):
            left = [entry for entry in entries if entry[0] >= query.first_epoch]
            flags = EpochsFlag.MORE if len(left) > 2 else EpochsFlag(0)
            page = tuple(left[:2])
            self.say(ReturnEpoch(1, 0, end, len(entries), flags, page))
        told = self.last()
        assert isinstance(told, ConfirmTruncate)
        if self.owner.closed is None:
            self.send(max(told.start_offset, 0), size)

    def last(self) -> Body:
        """What the slave said last."""
        frame, _ = take_frame(memoryview(self.owner.sent[-1]))
        assert frame is not None
        return frame.body

    def send(self, offset: int, size: int) -> None:
        """Blocks of at most 13 bytes, none across an epoch's end."""
        data, epochs = bytes(self.log.data), self.log.epochs
        slave = self.owner.log
        assert isinstance(slave, ShortLog)
        assert data[:offset] == bytes(slave.data), "RMQ-R275: histories that met differ"
        stop = min(offset + size, len(data))
        while offset < stop:
            entry = epochs.find(offset)
            assert entry is not None
            to = min(stop, offset + 13, epochs.end_of(entry))
            block = data[offset:to]
            self.say(
                TransferData(
                    entry.epoch,
                    entry.start_offset,
                    0,
                    offset,
                    len(data),
                    1,
                    0,
                    DataFlag(0),
                    block,
                )
            )
            assert self.owner.closed is None, self.owner.closed
            offset = to
        assert data[:offset] == bytes(slave.data)


@given(steps)
def test_bytes_below_the_point_of_any_two_replicas_are_equal(
    script: list[tuple[str, int, int]],
) -> None:
    """
    For every pair, after every step; and a slave that follows to the end is equal.
    """
    replicas = Set()
    replicas.elect(0)
    for verb, replica, number in script:
        if verb == "elect":
            replicas.elect(replica)
        elif verb == "write":
            replicas.write(replica, number)
        else:
            replicas.follow(replica, number)
        for one in replicas.logs:
            for other in replicas.logs:
                ours, theirs = one.view(), other.view()
                point = ours.epochs.consistent_point(
                    theirs.epochs, ours.end_offset, theirs.end_offset
                )
                assert one.data[: point or 0] == other.data[: point or 0]
