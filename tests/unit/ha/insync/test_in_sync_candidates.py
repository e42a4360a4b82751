"""
Candidates of an election: each wait for one has an end (B7, B12).
"""

from __future__ import annotations

from lib.ha.replica_set import ReplicaSet, member, members

from pystore.ha.insync.ack import Ack
from pystore.ha.insync.config import SetRules
from pystore.ha.wire.codes import AckStatus
from pystore.replicaset import AgreedSet


def elected(rules: SetRules | None = None) -> ReplicaSet:
    """
    A new master with two slaves that hold everything: one is a member, the other one a
    candidate whose admission was requested.
    """
    replicas = ReplicaSet((1,), (2, 3), end=100, rules=rules)
    replicas.connect(2)
    replicas.ack(2, 100)
    replicas.agree(replicas.ask())
    replicas.connect(3)
    replicas.ack(3, 100)
    return replicas


def all_offset(replicas: ReplicaSet) -> int:
    """
    Returns below which offset `all` is reached.
    """
    return replicas.monitor.ack_policy.completed(Ack.ALL)


class TestRefused:
    """B12: a candidate that the controller does not admit."""

    def test_it_is_asked_out_with_the_next_change(self) -> None:
        """At once, and `all` is reached when that change is committed, not before."""
        replicas = elected()
        change = replicas.ask()
        assert members(1, 2, 3) == change.members
        replicas.monitor.refused(change, frozenset({3}), replicas.now)
        assert 0 == all_offset(replicas)

        change = replicas.ask()

        assert (members(1, 2), frozenset()) == (change.members, change.candidates)
        assert "the controller does not admit it" in change.reason
        assert 0 == all_offset(replicas)
        replicas.agree(change)
        assert 100 == all_offset(replicas)

    def test_it_is_not_proposed_again_before_it_is_out(self) -> None:
        """Whatever it acks, and however long the answer takes."""
        replicas = elected()
        replicas.monitor.refused(replicas.ask(), frozenset({3}), replicas.now)
        for _ in range(10):
            change = replicas.ask()
            assert members(1, 2) == change.members
            replicas.monitor.unknown(change, replicas.now)
            replicas.wait_until(replicas.now + 2_000)
            replicas.ack(2, 100)
            replicas.ack(3, 100)

    def test_it_joins_later_by_the_usual_rule(self) -> None:
        """Once it is out it is a slave like any other."""
        replicas = elected()
        replicas.monitor.refused(replicas.ask(), frozenset({3}), replicas.now)
        replicas.agree(replicas.ask())
        replicas.wait_until(5_000)
        replicas.ack(2, 100)
        replicas.ack(3, 100)

        assert {1, 2, 3} == replicas.asked_ids()

    def test_those_that_were_proposed_with_it_join_without_it(self) -> None:
        """One change admits and removes."""
        replicas = ReplicaSet((1,), (2, 3), end=100)
        for broker_id in (2, 3):
            replicas.connect(broker_id)
            replicas.ack(broker_id, 100)
        replicas.monitor.refused(replicas.ask(), frozenset({3}), replicas.now)
        change = replicas.ask()

        assert (members(1, 2), frozenset()) == (change.members, change.candidates)

    def test_an_earlier_change_without_an_answer_still_counts(self) -> None:
        """B8: it may be committed, until the set has a newer version."""
        replicas = elected()
        replicas.monitor.unknown(replicas.ask(), replicas.now)
        replicas.wait_until(1_000)
        replicas.monitor.refused(replicas.ask(), frozenset({3}), replicas.now)
        change = replicas.ask()
        replicas.append(200)
        replicas.ack(2, 200)
        assert 100 == replicas.confirm
        replicas.agree(change)

        assert 200 == replicas.confirm

    def test_a_member_that_acks_stays_although_it_was_refused(self) -> None:
        """Heard by the controller or not: records may be on it and the master alone."""
        replicas = ReplicaSet()
        replicas.admit(2)
        replicas.connect(3)
        replicas.ack(3, 0)
        replicas.monitor.refused(replicas.ask(), frozenset({2, 3}), replicas.now)
        for now in range(1_000, 60_000, 1_000):
            replicas.wait_until(now)
            replicas.ack(2, 0)
            change = replicas.monitor.proposal(now)
            assert change is None or member(2) in change.members


class TestLate:
    """B12: the waits of B7 end `lag_ms_max` after the mastership began."""

    def test_a_candidate_that_cannot_join_is_asked_out_then(self) -> None:
        """To the millisecond: it acks, and its disk is full."""
        replicas = elected()
        replicas.ack(3, 100, status=AckStatus.DISK_FULL)
        for now in range(1_000, 15_000, 1_000):
            replicas.wait_until(now)
            replicas.ack(2, 100)
            replicas.ack(3, 100, status=AckStatus.DISK_FULL)
            assert replicas.asked_ids() is None, now
        assert 15_000 == replicas.monitor.next_deadline()
        replicas.wait_until(15_000)
        change = replicas.ask()

        assert (members(1, 2), frozenset()) == (change.members, change.candidates)
        assert "it was not admitted within 15000 ms" in change.reason

    def test_a_candidate_that_never_flushes_enough_is_asked_out_then(self) -> None:
        """B9: it is too slow to join a set of disks, and too fast to be removed."""
        replicas = elected()
        for now in range(0, 15_000, 250):
            replicas.wait_until(now)
            replicas.append(now + 100)
            replicas.ack(2, now + 100)
            replicas.ack(3, now + 100, flushed=max(100, now - 5_000))
            if (change := replicas.monitor.proposal(now)) is not None:
                replicas.monitor.refused(change, frozenset(), now)
        replicas.wait_until(16_000)

        assert {1, 2} == {one.broker_id for one in replicas.ask().members}

    def test_a_candidate_that_never_came_is_asked_out_then(self) -> None:
        """And not with a later check of the lags."""
        replicas = ReplicaSet((1,), (2,), end=100)
        replicas.wait_until(14_999)
        assert replicas.asked_ids() is None
        replicas.wait_until(15_000)

        assert members(1) == replicas.ask().members
        assert 0 == all_offset(replicas)

    def test_one_that_may_join_then_joins(self) -> None:
        """The controller was away for so long: both slaves hold everything."""
        replicas = elected()
        replicas.monitor.unknown(replicas.ask(), replicas.now)
        for now in range(1_000, 20_000, 1_000):
            replicas.wait_until(now)
            replicas.ack(2, 100)
            replicas.ack(3, 100)

        assert {1, 2, 3} == replicas.asked_ids()

    def test_a_member_has_no_such_end(self) -> None:
        """It may be slow for as long as it is caught up."""
        replicas = ReplicaSet()
        replicas.admit(2)
        for now in range(0, 60_000, 1_000):
            replicas.wait_until(now)
            replicas.ack(2, 0, status=AckStatus.DISK_FULL)
            assert replicas.asked_ids() is None, now


class TestRetry:
    """The next change is requested when it may be, not with the next check."""

    def test_a_lost_answer_wakes_the_thread_that_requests_changes(self) -> None:
        """After the second in which nothing is requested."""
        replicas = elected()
        replicas.monitor.unknown(replicas.ask(), replicas.now)

        assert 1_000 == replicas.monitor.next_deadline()
        replicas.wait_until(1_000)
        assert {1, 2, 3} == replicas.asked_ids()

    def test_an_answer_ends_the_wait(self) -> None:
        """A newer set says what is to be requested."""
        replicas = elected()
        replicas.monitor.unknown(replicas.ask(), replicas.now)
        agreed = AgreedSet(members(1, 2, 3), 9)
        replicas.monitor.agreed(agreed, replicas.now)

        assert 3_000 == replicas.monitor.next_deadline()
