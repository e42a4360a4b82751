"""
The log of a slave that begins above 0: its queue offsets, and what it lacks.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.ha.slave_logs import kill_while, master_bytes, opened
from lib.store.stores import SEGMENT

from pystore.epochs.table import EpochEntry
from pystore.ha.slave.effects import Append, Begin, ReachFloor, Wipe
from pystore.ha.slave.replica_log import LogEffect, ReplicaLog
from pystore.ha.wire.frames import NextQueueOffset
from pystore.message.message import Message

QUEUES = (NextQueueOffset("quiet", 2, 192), NextQueueOffset("Topic", 0, 7))


def next_offset(log: ReplicaLog, topic: str, queue_id: int) -> int:
    """
    Begins a mastership; returns the queue offset that a record gets.
    """
    now = log.log()
    epoch = max(now.promised_epoch, now.epochs.last_epoch, 0) + 1
    appended = log.begin_mastership(epoch).append(
        Message(topic, b"x", queue_id=queue_id)
    )
    return appended.queue_offset


@pytest.fixture
def slave(tmp_path: Path) -> Path:
    """
    Where the replica is.
    """
    return tmp_path / "slave"


@pytest.mark.parametrize("restarts", ["not at all", "after a kill", "after a close"])
def test_queue_offsets_of_a_begin_are_durable_before_its_first_byte(
    slave: Path, restarts: str
) -> None:
    """
    A20: then a quiet queue goes on with its number, whatever happens next.
    """
    begin = Begin(SEGMENT, SEGMENT, QUEUES)
    if restarts == "after a kill":
        kill_while(slave, lambda log: log.carry_out(begin))
    elif restarts == "after a close":
        with opened(slave) as log:
            log.carry_out(begin)
    with opened(slave) as log:
        if restarts == "not at all":
            log.carry_out(begin)
        assert (SEGMENT, SEGMENT) == (log.log().min_offset, log.log().end_offset)
        assert 192 == next_offset(log, "quiet", 2)
    with opened(slave) as log:
        assert 193 == next_offset(log, "quiet", 2)
        assert 0 == next_offset(log, "quiet", 3)


def test_a_begin_that_is_repeated_has_the_newer_numbers(slave: Path) -> None:
    """
    The link ended before a byte came, and the master's retention went on.
    """
    with opened(slave) as log:
        log.carry_out(Begin(SEGMENT, SEGMENT, QUEUES))
        later = (NextQueueOffset("quiet", 2, 200), NextQueueOffset("new", 0, 1))
        log.carry_out(Begin(2 * SEGMENT, 2 * SEGMENT, later))
        assert 2 * SEGMENT == log.log().received_offset
        assert 200 == next_offset(log, "quiet", 2)
    with opened(slave) as log:
        assert 1 == next_offset(log, "new", 0)
        assert 0 == next_offset(log, "Topic", 0)


def test_records_of_a_begin_count_on_from_their_own_numbers(
    tmp_path: Path, slave: Path
) -> None:
    """
    The master's table as of the begin is below them.
    """
    master = master_bytes(tmp_path / "master")
    with opened(tmp_path / "copy") as whole:
        whole.carry_out(Append(0, master, EpochEntry(1, 0)))
        queues = whole.queues_at(2 * SEGMENT)
        expected = next_offset(whole, "Topic", 0)
    entries = tuple(NextQueueOffset(*key, number) for key, number in queues.items())
    assert queues["Topic", 0] > 0
    with opened(slave) as log:
        log.carry_out(Begin(2 * SEGMENT, 0, entries))
        tail = memoryview(master)[2 * SEGMENT :]
        log.carry_out(Append(2 * SEGMENT, tail, EpochEntry(1, 0)))
        assert expected == next_offset(log, "Topic", 0)


@pytest.mark.parametrize(
    ("effects", "is_filling"),
    [
        ((), False),
        ((Begin(SEGMENT, SEGMENT, ()),), False),
        ((Begin(SEGMENT, 0, ()),), True),
        ((Begin(SEGMENT, 0, ()), Begin(2 * SEGMENT, 2 * SEGMENT, ())), False),
        ((Begin(SEGMENT, 0, ()), ReachFloor()), False),
        ((Begin(SEGMENT, 0, ()), Wipe()), False),
    ],
)
@pytest.mark.parametrize("is_killed", [False, True])
def test_what_a_replica_lacks_outlives_its_process(
    slave: Path, effects: tuple[LogEffect, ...], *, is_filling: bool, is_killed: bool
) -> None:
    """
    B11: until its set begins where it does, it is elected only unclean.
    """

    def work(log: ReplicaLog) -> None:
        for effect in effects:
            log.carry_out(effect)

    if is_killed:
        kill_while(slave, work)
    else:
        with opened(slave) as log:
            work(log)
    with opened(slave) as log:
        assert is_filling == log.log().is_filling
        log.begin_mastership(1)
        assert not log.log().is_filling


def test_bytes_without_queue_offsets_make_a_replica_that_is_not_elected(
    tmp_path: Path, slave: Path
) -> None:
    """
    As from a master of RocketMQ, which tells none; the floor does not mend that.
    """
    master = master_bytes(tmp_path / "master")
    with opened(slave) as log:
        tail = memoryview(master)[SEGMENT:]
        log.carry_out(Append(SEGMENT, tail, EpochEntry(1, 0)))
        assert log.log().is_filling
        log.carry_out(ReachFloor())
        assert log.log().is_filling
    with opened(slave) as log:
        assert log.log().is_filling
