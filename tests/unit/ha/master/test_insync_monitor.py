"""
The in-sync monitor: acks move the log's confirm offset, and waits end.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from lib.ha.insync_fixture import EPOCH, LONG_MS, InSyncFixture
from lib.store.stores import fill

from pystore.errors import FullError, RemoteViolation
from pystore.ha.insync.ack import Ack, AckOutcome
from pystore.ha.insync.config import SetRules
from pystore.ha.insync.facts import SessionEnded, SessionOpened
from pystore.ha.insync.set_change import SetChange
from pystore.ha.master.insync_monitor import SetRefusal
from pystore.replicaset import AgreedSet, Member
from pystore.store.commit_log import CommitLog


@pytest.fixture
def log(tmp_path: Path) -> Iterator[CommitLog]:
    """An open log with a few records of our epoch."""
    with CommitLog(tmp_path, segment_size=1 << 16) as opened:
        opened.begin_epoch(EPOCH)
        fill(opened, 5)
        yield opened


def test_alone_in_the_set_everything_is_confirmed(log: CommitLog) -> None:
    """The log's own confirm offset moves with it."""
    fixture = InSyncFixture(log)
    end = fixture.append()
    settled = fixture.monitor.appends.wait(Ack.ALL, end, LONG_MS)

    assert settled.outcome is AckOutcome.REACHED
    assert log.confirm_offset == fixture.monitor.confirm_offset == end


def test_the_slowest_member_decides(log: CommitLog) -> None:
    """RMQ-R121: both have to ack before a wait for `all` ends."""
    fixture = InSyncFixture(log, 2, 3)
    end = fixture.append()
    fixture.open(2, 12)
    fixture.open(3, 13)
    outcomes: list[AckOutcome] = []
    waiting = threading.Thread(
        target=lambda: outcomes.append(
            fixture.monitor.appends.wait(Ack.ALL, end, LONG_MS).outcome
        )
    )
    waiting.start()
    fixture.ack(2, 12, end)
    assert log.confirm_offset < end
    fixture.ack(3, 13, end)
    waiting.join(LONG_MS / 1000)

    assert outcomes == [AckOutcome.REACHED]
    assert log.confirm_offset == end


def test_the_newest_session_is_the_one_that_counts(log: CommitLog) -> None:
    """
    RMQ-R95, RMQ-R217: the older one is named to be closed, and its acks are nothing.
    """
    fixture = InSyncFixture(log, 2)
    end = fixture.append()
    assert fixture.open(2, 12) is None
    assert fixture.open(2, 13) == 12
    fixture.ack(2, 12, end)
    assert log.confirm_offset < end
    fixture.monitor.left(SessionEnded(2, 12, is_graceful=False))
    assert fixture.monitor.set_view().sessions == {2: None}

    fixture.ack(2, 13, end)
    assert log.confirm_offset == end
    fixture.monitor.left(SessionEnded(2, 13, is_graceful=False))
    assert fixture.monitor.set_view().sessions == {}


def test_an_ack_above_our_end_is_refused(log: CommitLog) -> None:
    """RMQ-R130: and nothing moved."""
    fixture = InSyncFixture(log, 2)
    fixture.open(2, 12)

    with pytest.raises(RemoteViolation, match="above the end"):
        fixture.ack(2, 12, log.end_offset + 1)
    assert log.confirm_offset < log.end_offset


def test_the_set_view_says_which_slaves_acks_wait_for(log: CommitLog) -> None:
    """The members that the controller lists, and requested ones (RMQ-R114)."""
    fixture = InSyncFixture(log, 2)
    assert fixture.monitor.set_view().members == {1, 2}
    fixture.open(3, 13)
    fixture.ack(3, 13, fixture.append())
    change = fixture.monitor.tick()

    assert change is not None
    assert fixture.monitor.set_view(is_busy=True).members == {1, 2, 3}
    assert fixture.monitor.set_view(is_busy=True).is_busy
    assert fixture.monitor.set_view(is_master=False).is_master is False


class Unleased(InSyncFixture):
    """
    A master that has no lease yet, on a machine so busy that time passes between any
    two looks at the clock.
    """

    @property
    def lease_ms(self) -> int | None:
        """Over at the moment at which it is asked for."""
        self.now_ms += 5
        return self.now_ms - 1

    @lease_ms.setter
    def lease_ms(self, value: int | None) -> None:
        pass


def test_a_filling_replica_is_no_member_before_a_lease_is_granted(
    log: CommitLog,
) -> None:
    """B11: the controller may be one of RocketMQ, which elects any member."""
    fixture = Unleased(log)
    for broker_id in (2, 3):
        fixture.monitor.opened(
            SessionOpened(
                broker_id,
                None,
                10 + broker_id,
                0,
                is_learner=False,
                is_legacy=True,
                is_filling=broker_id == 2,
            )
        )
    end = fixture.append()
    for broker_id in (2, 3):
        fixture.ack(broker_id, 10 + broker_id, end)
    change = fixture.monitor.tick()
    assert change is not None
    assert {Member(1), Member(3)} == change.members


class TestAsking:
    """What the controller is asked, and what it may answer."""

    def asked(self, fixture: InSyncFixture) -> SetChange:
        """A change, because a slave has caught up."""
        fixture.open(2, 12)
        fixture.ack(2, 12, fixture.append())
        change = fixture.monitor.tick()
        assert change is not None
        return change

    def test_an_agreement_is_the_set_from_now_on(self, log: CommitLog) -> None:
        """The slave is in."""
        fixture = InSyncFixture(log)
        change = self.asked(fixture)
        fixture.monitor.answered(
            change, AgreedSet(change.members, 2, change.candidates)
        )

        assert {one.broker_id for one in fixture.monitor.set_now.members} == {1, 2}

    def test_a_refusal_leaves_the_set(self, log: CommitLog) -> None:
        """RMQ-R119: the pending member is waited for no longer."""
        fixture = InSyncFixture(log)
        change = self.asked(fixture)
        fixture.monitor.answered(change, SetRefusal(frozenset({2})))
        end = fixture.append()

        assert (
            fixture.monitor.appends.wait(Ack.ALL, end, LONG_MS).outcome
            is AckOutcome.REACHED
        )

    def test_no_answer_keeps_both_sets(self, log: CommitLog) -> None:
        """RMQ-R114: either may be the controller's."""
        fixture = InSyncFixture(log)
        change = self.asked(fixture)
        fixture.monitor.answered(change, None)

        assert fixture.monitor.set_view().members == {1, 2}

    def test_a_poll_may_bring_the_answer(self, log: CommitLog) -> None:
        """RMQ-R117."""
        fixture = InSyncFixture(log)
        change = self.asked(fixture)
        fixture.monitor.answered(change, None)
        fixture.monitor.agreed(AgreedSet(change.members, 2))

        assert fixture.monitor.set_now.set_epoch == 2

    def test_a_candidate_that_acks_is_asked_in_at_once(self, log: CommitLog) -> None:
        """B7: every `all` waits for that, so it comes before the next check."""
        fixture = InSyncFixture(log)
        fixture.monitor.agreed(
            AgreedSet(frozenset({Member(1)}), 2, candidates=frozenset({Member(2)}))
        )
        fixture.open(2, 12)
        rings = fixture.monitor.notifier.count
        fixture.ack(2, 12, fixture.append())
        change = fixture.monitor.tick()

        assert fixture.monitor.notifier.count > rings
        assert change is not None
        assert {one.broker_id for one in change.members} == {1, 2}

    def test_time_is_kept_until_the_end(self, log: CommitLog) -> None:
        """The thread offers changes by itself, and ends with the mastership."""
        fixture = InSyncFixture(log)
        offered: queue.SimpleQueue[SetChange] = queue.SimpleQueue()
        thread = threading.Thread(target=fixture.monitor.keep_time, args=(offered.put,))
        thread.start()
        fixture.open(2, 12)
        fixture.ack(2, 12, fixture.append())
        change = offered.get(timeout=LONG_MS / 1000)
        fixture.monitor.answered(change, AgreedSet(change.members, 2))
        fixture.monitor.close()
        thread.join(LONG_MS / 1000)

        assert {one.broker_id for one in change.members} == {1, 2}
        assert not thread.is_alive()
        assert offered.empty()

    def test_time_passes_while_the_controller_takes_its_time(
        self, log: CommitLog
    ) -> None:
        """A member that is gone is noticed, and waits end, without any answer."""
        fixture = InSyncFixture(log, 3)
        offered: queue.SimpleQueue[SetChange] = queue.SimpleQueue()
        thread = threading.Thread(target=fixture.monitor.keep_time, args=(offered.put,))
        thread.start()
        fixture.open(2, 12)
        fixture.ack(2, 12, fixture.append())
        offered.get(timeout=LONG_MS / 1000)
        outcomes: queue.SimpleQueue[AckOutcome] = queue.SimpleQueue()
        end = fixture.append()
        waiting = threading.Thread(
            target=lambda: outcomes.put(
                fixture.monitor.appends.wait(Ack.ALL, end, 50).outcome
            )
        )
        waiting.start()
        while not fixture.monitor.appends.waiting:
            fixture.monitor.rest(1)
        fixture.now_ms = 51
        fixture.monitor.notifier.notify()

        assert outcomes.get(timeout=LONG_MS / 1000) is AckOutcome.TIMED_OUT
        fixture.monitor.close()
        thread.join(LONG_MS / 1000)
        waiting.join(LONG_MS / 1000)
        assert offered.empty()

    def test_a_master_whose_appends_are_refused_is_to_resign_in_time(
        self, log: CommitLog
    ) -> None:
        """B13: the thread that keeps the time has a deadline for it, without a fact."""
        rules = SetRules(first_check_ms=10**6, check_ms=10**6, resign_ms=50)
        fixture = InSyncFixture(log, 2, rules=rules)
        told: queue.SimpleQueue[str] = queue.SimpleQueue()
        fixture.open(2, 12)
        fixture.ack(2, 12, log.end_offset)
        for fixture.now_ms in (0, 40):
            fixture.monitor.appends.refused(FullError("no space left"))
        assert "appends are refused: no space left" == fixture.monitor.problem
        thread = threading.Thread(
            target=fixture.monitor.keep_time, args=(None, told.put)
        )
        thread.start()
        fixture.now_ms = 51
        reason = told.get(timeout=LONG_MS / 1000)
        fixture.monitor.close()
        thread.join(LONG_MS / 1000)

        assert "appends are refused: no space left; another member is well" == reason

    def test_an_append_that_is_taken_ends_the_problem(self, log: CommitLog) -> None:
        """At once, although the log was not looked at since."""
        fixture = InSyncFixture(log)
        fixture.monitor.appends.refused(FullError("no space left"))
        fixture.append()

        assert "" == fixture.monitor.problem

    def test_a_master_whose_disk_failed_is_to_resign_once(self, log: CommitLog) -> None:
        """B9: when that has lasted, and another member is well."""
        fixture = InSyncFixture(log, 2)
        told: queue.SimpleQueue[str] = queue.SimpleQueue()
        fixture.open(2, 12)
        fixture.ack(2, 12, log.end_offset)
        fixture.in_sync.poisoned(0)
        fixture.now_ms = 15_000
        fixture.ack(2, 12, log.end_offset)
        assert not fixture.monitor.must_resign()
        fixture.now_ms = 15_001
        assert fixture.monitor.must_resign()
        thread = threading.Thread(
            target=fixture.monitor.keep_time, args=(None, told.put)
        )
        thread.start()
        reason = told.get(timeout=LONG_MS / 1000)
        for _ in range(3):
            fixture.monitor.notifier.notify()
            fixture.monitor.rest(5)
        fixture.monitor.close()
        thread.join(LONG_MS / 1000)

        assert reason == (
            "a write-back failed: close this broker, and open it again; "
            "another member is well"
        )
        assert told.empty()
