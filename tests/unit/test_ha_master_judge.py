"""
The judgement behind its lock: acks move the log's confirm offset, and waits end.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from stores import fill, message

from pystore.errors import LocalViolation, RemoteViolation
from pystore.ha.codes import AckStatus
from pystore.ha.insync.ack import Ack, Outcome
from pystore.ha.insync.in_sync import InSync
from pystore.ha.insync.member import AgreedSet, Member, SetChange
from pystore.ha.master.effects import Acked, Left, Opened
from pystore.ha.master.judge import Judge, SetRefusal
from pystore.log import CommitLog

EPOCH = 3
LONG_MS = 10_000


class Court:
    """A judge over a real log, with a clock of the test's."""

    def __init__(self, log: CommitLog, *members: int) -> None:
        self.log = log
        self.now_ms = 0
        ends = log.writer.log.ends()
        agreed = AgreedSet(frozenset(map(Member, (1, *members))), 1)
        self.in_sync = in_sync = InSync(
            Member(1),
            EPOCH,
            log.end_offset,
            agreed,
            flushed_offset=ends.synced_end,
            confirm_offset=ends.confirm_offset,
            now_ms=0,
        )
        self.judge = Judge(
            in_sync, log.writer.log, lambda: frozenset({1, 2, 3}), lambda: self.now_ms
        )

    def open(self, broker_id: int, session_id: int) -> int | None:
        """A legacy slave's session, which needs no incarnation."""
        return self.judge.opened(
            Opened(broker_id, None, session_id, 0, is_learner=False, is_legacy=True)
        )

    def ack(self, broker_id: int, session_id: int, received: int) -> None:
        """It holds so much."""
        self.judge.acked(
            Acked(broker_id, session_id, received, None, self.now_ms, AckStatus.OK)
        )

    def append(self) -> int:
        """One record; answers its end."""
        return self.log.append(message(1)).end


@pytest.fixture
def log(tmp_path: Path) -> Iterator[CommitLog]:
    """An open log with a few records of our epoch."""
    with CommitLog(tmp_path, segment_size=1 << 16) as opened:
        opened.begin_epoch(EPOCH)
        fill(opened, 5)
        yield opened


def test_alone_in_the_set_everything_is_confirmed(log: CommitLog) -> None:
    """The log's own confirm offset moves with it."""
    court = Court(log)
    end = court.append()
    settled = court.judge.wait(Ack.ALL, end, LONG_MS)

    assert settled.outcome is Outcome.REACHED
    assert log.confirm_offset == court.judge.confirm_offset == end


def test_the_slowest_member_decides(log: CommitLog) -> None:
    """R121: both have to ack before a wait for `all` ends."""
    court = Court(log, 2, 3)
    end = court.append()
    court.open(2, 12)
    court.open(3, 13)
    outcomes: list[Outcome] = []
    waiting = threading.Thread(
        target=lambda: outcomes.append(court.judge.wait(Ack.ALL, end, LONG_MS).outcome)
    )
    waiting.start()
    court.ack(2, 12, end)
    assert log.confirm_offset < end
    court.ack(3, 13, end)
    waiting.join(LONG_MS / 1000)

    assert outcomes == [Outcome.REACHED]
    assert log.confirm_offset == end


def test_a_wait_runs_out_by_the_clock(log: CommitLog) -> None:
    """R211: the record stays, and the caller is told."""
    court = Court(log, 2)
    end = court.append()
    court.now_ms = 10

    def pass_time() -> None:
        court.now_ms = 10_000

    timer = threading.Timer(0.01, pass_time)
    timer.start()
    settled = court.judge.wait(Ack.ALL, end, 30)
    timer.join()

    assert settled.outcome is Outcome.TIMED_OUT
    assert settled.received_by == {1}


def test_a_synced_ack_syncs_first(log: CommitLog) -> None:
    """Whoever waits makes it happen."""
    court = Court(log)
    end = court.append()

    settled = court.judge.wait(Ack.LEADER_SYNCED, end, LONG_MS)
    assert settled.flushed_by == {1}
    assert log.writer.log.ends().synced_end >= end


def test_the_newest_session_is_the_one_that_counts(log: CommitLog) -> None:
    """R95, R217: the older one is named to be closed, and its acks are nothing."""
    court = Court(log, 2)
    end = court.append()
    assert court.open(2, 12) is None
    assert court.open(2, 13) == 12
    court.ack(2, 12, end)
    assert log.confirm_offset < end
    court.judge.left(Left(2, 12, is_graceful=False))
    assert court.judge.roster().sessions == {2: None}

    court.ack(2, 13, end)
    assert log.confirm_offset == end
    court.judge.left(Left(2, 13, is_graceful=False))
    assert court.judge.roster().sessions == {}


def test_an_ack_above_our_end_is_refused(log: CommitLog) -> None:
    """R130: and nothing moved."""
    court = Court(log, 2)
    court.open(2, 12)

    with pytest.raises(RemoteViolation, match="above our end"):
        court.ack(2, 12, log.end_offset + 1)
    assert log.confirm_offset < log.end_offset


def test_the_roster_says_who_is_waited_for(log: CommitLog) -> None:
    """Those whom the controller lists, and those it was asked to (R114)."""
    court = Court(log, 2)
    assert court.judge.roster().members == {1, 2}
    court.open(3, 13)
    court.ack(3, 13, court.append())
    change = court.judge.tick()

    assert change is not None
    assert court.judge.roster(is_busy=True).members == {1, 2, 3}
    assert court.judge.roster(is_busy=True).is_busy
    assert court.judge.roster(is_master=False).is_master is False


class TestAsking:
    """What the controller is asked, and what it may answer."""

    def asked(self, court: Court) -> SetChange:
        """A change, because a slave has caught up."""
        court.open(2, 12)
        court.ack(2, 12, court.append())
        change = court.judge.tick()
        assert change is not None
        return change

    def test_an_agreement_is_the_set_from_now_on(self, log: CommitLog) -> None:
        """The slave is in."""
        court = Court(log)
        change = self.asked(court)
        court.judge.answered(change, AgreedSet(change.members, 2, change.candidates))

        assert {one.broker_id for one in court.judge.set_now.members} == {1, 2}

    def test_a_refusal_leaves_the_set(self, log: CommitLog) -> None:
        """R119: the pending member is waited for no longer."""
        court = Court(log)
        change = self.asked(court)
        court.judge.answered(change, SetRefusal(frozenset({2})))
        end = court.append()

        assert court.judge.wait(Ack.ALL, end, LONG_MS).outcome is Outcome.REACHED

    def test_no_answer_keeps_both_sets(self, log: CommitLog) -> None:
        """R114: either may be the controller's."""
        court = Court(log)
        change = self.asked(court)
        court.judge.answered(change, None)

        assert court.judge.roster().members == {1, 2}

    def test_a_poll_may_bring_the_answer(self, log: CommitLog) -> None:
        """R117."""
        court = Court(log)
        change = self.asked(court)
        court.judge.answered(change, None)
        court.judge.agreed(AgreedSet(change.members, 2))

        assert court.judge.set_now.set_epoch == 2

    def test_a_candidate_that_acks_is_asked_in_at_once(self, log: CommitLog) -> None:
        """B7: every `all` waits for that, so nobody sleeps on until the next check."""
        court = Court(log)
        court.judge.agreed(
            AgreedSet(frozenset({Member(1)}), 2, candidates=frozenset({Member(2)}))
        )
        court.open(2, 12)
        rings = court.judge.bell.rings
        court.ack(2, 12, court.append())
        change = court.judge.tick()

        assert court.judge.bell.rings > rings
        assert change is not None
        assert {one.broker_id for one in change.members} == {1, 2}

    def test_time_is_kept_until_the_end(self, log: CommitLog) -> None:
        """The thread offers changes by itself, and ends with the mastership."""
        court = Court(log)
        offered: queue.SimpleQueue[SetChange] = queue.SimpleQueue()
        thread = threading.Thread(target=court.judge.keep_time, args=(offered.put,))
        thread.start()
        court.open(2, 12)
        court.ack(2, 12, court.append())
        change = offered.get(timeout=LONG_MS / 1000)
        court.judge.answered(change, AgreedSet(change.members, 2))
        court.judge.close()
        thread.join(LONG_MS / 1000)

        assert {one.broker_id for one in change.members} == {1, 2}
        assert not thread.is_alive()
        assert offered.empty()

    def test_time_passes_while_the_controller_takes_its_time(
        self, log: CommitLog
    ) -> None:
        """A member that is gone is noticed, and waits end, without any answer."""
        court = Court(log, 3)
        offered: queue.SimpleQueue[SetChange] = queue.SimpleQueue()
        thread = threading.Thread(target=court.judge.keep_time, args=(offered.put,))
        thread.start()
        court.open(2, 12)
        court.ack(2, 12, court.append())
        offered.get(timeout=LONG_MS / 1000)
        outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        end = court.append()
        waiting = threading.Thread(
            target=lambda: outcomes.put(court.judge.wait(Ack.ALL, end, 50).outcome)
        )
        waiting.start()
        while not court.judge.is_waited_on:
            court.judge.rest(1)
        court.now_ms = 51
        court.judge.bell.ring()

        assert outcomes.get(timeout=LONG_MS / 1000) is Outcome.TIMED_OUT
        court.judge.close()
        thread.join(LONG_MS / 1000)
        waiting.join(LONG_MS / 1000)
        assert offered.empty()

    def test_a_master_whose_disk_failed_is_to_resign_once(self, log: CommitLog) -> None:
        """B9: when that has lasted, and another member is well."""
        court = Court(log, 2)
        told: queue.SimpleQueue[str] = queue.SimpleQueue()
        court.open(2, 12)
        court.ack(2, 12, log.end_offset)
        court.in_sync.poisoned(0)
        court.now_ms = 15_000
        court.ack(2, 12, log.end_offset)
        assert not court.judge.must_resign()
        court.now_ms = 15_001
        assert court.judge.must_resign()
        thread = threading.Thread(target=court.judge.keep_time, args=(None, told.put))
        thread.start()
        reason = told.get(timeout=LONG_MS / 1000)
        for _ in range(3):
            court.judge.bell.ring()
            court.judge.rest(5)
        court.judge.close()
        thread.join(LONG_MS / 1000)

        assert reason == "its disk has failed, and another member is well"
        assert told.empty()


def test_a_newer_epoch_ends_every_wait(log: CommitLog) -> None:
    """B8: and nothing is promised any more."""
    court = Court(log, 2)
    end = court.append()
    court.judge.step_down(9)

    assert court.judge.wait(Ack.ALL, end, LONG_MS).outcome is Outcome.FENCED
    assert "epoch 9 is known" in str(court.judge.refusal(Ack.LEADER))


def test_a_closed_mastership_waits_for_nothing(log: CommitLog) -> None:
    """Who waits is told, who comes later too."""
    court = Court(log, 2)
    end = court.append()
    outcomes: list[Outcome] = []
    waiting = threading.Thread(
        target=lambda: outcomes.append(court.judge.wait(Ack.ALL, end, LONG_MS).outcome)
    )
    waiting.start()
    while not court.judge.is_waited_on:
        court.judge.rest(1)
    court.judge.close()
    waiting.join(LONG_MS / 1000)

    assert outcomes == [Outcome.FENCED]
    with pytest.raises(LocalViolation, match="this mastership is over"):
        court.judge.wait(Ack.ALL, end, LONG_MS)


def test_before_an_append_it_is_said_whether_its_ack_can_be_kept(
    log: CommitLog,
) -> None:
    """R206."""
    assert Court(log).judge.refusal(Ack.ALL) is None
