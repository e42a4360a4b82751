"""
Appends wait for replicas, and are told what they reached.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from lib.ha.insync_fixture import EPOCH, LONG_MS, InSyncFixture
from lib.store.stores import fill, message

from pystore.errors import ClosedError, FencedError
from pystore.ha.insync.ack import Ack, AckOutcome, AckResult
from pystore.store.commit_log import CommitLog


@pytest.fixture
def log(tmp_path: Path) -> Iterator[CommitLog]:
    """An open log with a few records of our epoch."""
    with CommitLog(tmp_path, segment_size=1 << 16) as opened:
        opened.begin_epoch(EPOCH)
        fill(opened, 5)
        yield opened


class Appender(threading.Thread):
    """A thread with one append."""

    def __init__(self, fixture: InSyncFixture, ack: Ack) -> None:
        super().__init__(daemon=True)
        self._court = fixture
        self._ack = ack
        self.end = 0
        self.settled: AckResult | None = None
        self.start()

    def run(self) -> None:
        """Appends and waits."""
        appended, settled = self._court.monitor.appends.append(
            message(1).form, self._ack, LONG_MS
        )
        self.end, self.settled = appended.end, settled

    def outcome(self) -> AckOutcome | None:
        """How it ended; nothing if it still waits."""
        self.join(LONG_MS / 1000)
        return None if self.settled is None else self.settled.outcome


def _until_waiting(fixture: InSyncFixture, count: int) -> None:
    while fixture.monitor.appends.waiting != count:
        fixture.monitor.rest(1)


@pytest.mark.parametrize("ack", list(Ack))
def test_a_master_alone_has_every_ack_at_once(log: CommitLog, ack: Ack) -> None:
    """No slave is waited for; the master's disk is, if the ack needs it."""
    fixture = InSyncFixture(log)
    appended, settled = fixture.monitor.appends.append(message(1).form, ack, LONG_MS)

    assert settled.outcome is AckOutcome.REACHED
    assert settled.end_offset == appended.end == log.end_offset
    assert settled.received_by == {1}
    assert (settled.flushed_by == {1}) or not ack.is_synced


def test_one_ack_ends_all_waits_that_it_covers(log: CommitLog) -> None:
    """Those above it wait on."""
    fixture = InSyncFixture(log, 2)
    fixture.open(2, 12)
    threads = [Appender(fixture, Ack.ALL) for _ in range(5)]
    _until_waiting(fixture, 5)
    middle = log.end_offset
    late = Appender(fixture, Ack.ALL)
    _until_waiting(fixture, 6)
    fixture.monitor.sent(middle)
    fixture.ack(2, 12, middle)

    assert [AckOutcome.REACHED] * 5 == [one.outcome() for one in threads]
    assert [{1, 2}] * 5 == [one.settled.received_by for one in threads if one.settled]
    assert log.confirm_offset == middle
    assert fixture.monitor.appends.waiting == 1
    fixture.ack(2, 12, log.end_offset)
    assert late.outcome() is AckOutcome.REACHED


def test_one_wait_does_for_many_appends(log: CommitLog) -> None:
    """What ends below has the ack too."""
    fixture = InSyncFixture(log, 2)
    fixture.open(2, 12)
    ends = [fixture.append() for _ in range(3)]
    fixture.ack(2, 12, ends[-1])

    settled = fixture.monitor.appends.wait(Ack.ALL, ends[-1], LONG_MS)
    assert settled.outcome is AckOutcome.REACHED
    assert log.confirm_offset == ends[-1]


def test_a_master_that_loses_its_last_slave_waits_for_none(log: CommitLog) -> None:
    """RMQ-R213: once the set is the master alone, its own log decides."""
    fixture = InSyncFixture(log)
    fixture.open(3, 13)
    fixture.ack(3, 13, log.end_offset)
    thread = Appender(fixture, Ack.ALL)
    fixture.leave(3, 13)

    assert thread.outcome() is AckOutcome.REACHED


def test_slaves_sync_while_a_caller_waits_for_their_disks(log: CommitLog) -> None:
    """And a moment longer; appends that ask for less never ask for it."""
    fixture = InSyncFixture(log)
    appends = fixture.monitor.appends
    appends.check(Ack.ALL)
    appends.append(message(1).form, Ack.ALL, LONG_MS)
    wants = [appends.wants_flush]
    appends.check(Ack.ALL_SYNCED)
    wants.append(appends.wants_flush)
    fixture.now_ms = 5_000
    wants.append(appends.wants_flush)
    appends.append(message(1).form, Ack.ALL_SYNCED, LONG_MS)

    assert [*wants, appends.wants_flush] == [False, True, False, True]


def test_a_leader_ack_without_a_lease_is_fenced(log: CommitLog) -> None:
    """B8; an ack of others needs none."""
    fixture = InSyncFixture(log)
    fixture.lease_ms = 5
    fixture.now_ms = 6
    _, leader = fixture.monitor.appends.append(message(1).form, Ack.LEADER, LONG_MS)
    _, shared = fixture.monitor.appends.append(message(1).form, Ack.ALL, LONG_MS)

    assert (leader.outcome, shared.outcome) == (AckOutcome.FENCED, AckOutcome.REACHED)


def test_an_append_that_fails_is_not_waited_for(log: CommitLog) -> None:
    """The log says why."""
    fixture = InSyncFixture(log, 2)
    fixture.monitor.notifier.close()
    log.close()

    with pytest.raises(ClosedError):
        fixture.monitor.appends.append(message(1).form, Ack.ALL, LONG_MS)
    assert fixture.monitor.appends.waiting == 0


def test_a_wait_runs_out_by_the_clock(log: CommitLog) -> None:
    """RMQ-R211: the record stays, and the caller is told."""
    fixture = InSyncFixture(log, 2)
    end = fixture.append()
    fixture.now_ms = 10

    def pass_time() -> None:
        fixture.now_ms = 10_000

    timer = threading.Timer(0.01, pass_time)
    timer.start()
    settled = fixture.monitor.appends.wait(Ack.ALL, end, 30)
    timer.join()

    assert settled.outcome is AckOutcome.TIMED_OUT
    assert settled.received_by == {1}


def test_a_synced_ack_syncs_first(log: CommitLog) -> None:
    """The waiting thread reads the log itself."""
    fixture = InSyncFixture(log)
    end = fixture.append()

    settled = fixture.monitor.appends.wait(Ack.LEADER_SYNCED, end, LONG_MS)
    assert settled.flushed_by == {1}
    assert log.writer.log.ends().synced_end >= end


def test_a_closed_mastership_waits_for_nothing(log: CommitLog) -> None:
    """Waiters and later appenders get the same answer."""
    fixture = InSyncFixture(log, 2)
    end = fixture.append()
    outcomes: list[AckOutcome] = []
    waiting = threading.Thread(
        target=lambda: outcomes.append(
            fixture.monitor.appends.wait(Ack.ALL, end, LONG_MS).outcome
        )
    )
    waiting.start()
    while not fixture.monitor.appends.waiting:
        fixture.monitor.rest(1)
    fixture.monitor.close()
    waiting.join(LONG_MS / 1000)

    assert outcomes == [AckOutcome.FENCED]
    assert (
        fixture.monitor.appends.wait(Ack.ALL, end, LONG_MS).outcome is AckOutcome.FENCED
    )
    with pytest.raises(FencedError, match="this mastership is over"):
        fixture.monitor.appends.append(message(1).form, Ack.ALL, LONG_MS)
    assert log.end_offset == end
