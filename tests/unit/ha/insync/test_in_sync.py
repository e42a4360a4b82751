"""
What the controller answers, and what no ack may do: RMQ-C.4, RMQ-C.5, RMQ-K.3.
"""

from __future__ import annotations

import pytest
from lib.ha.replica_set import EPOCH, ReplicaSet, members

from pystore.errors import RemoteViolation
from pystore.replicaset import AgreedSet


class TestAnswers:
    """RMQ-C.4, RMQ-C.5: two sets, until the answer is known."""

    def test_one_change_is_asked_for_at_a_time(self) -> None:
        """RMQ-R93: the next wish waits for the answer."""
        replicas = ReplicaSet()
        replicas.connect(2)
        replicas.ack(2, 0)
        change = replicas.ask()
        replicas.connect(3)
        replicas.ack(3, 0)
        assert replicas.asked_ids() is None

        replicas.agree(change)
        assert {1, 2, 3} == replicas.asked_ids()

    def test_a_slave_that_is_asked_in_is_waited_for_at_once(self) -> None:
        """RMQ-R114; RMQ-L.1.1: the answer may be lost, and it may be elected."""
        replicas = ReplicaSet()
        replicas.connect(2)
        replicas.ack(2, 0)
        replicas.ask()
        replicas.append(100)
        replicas.wait_until(2_000)

        assert 0 == replicas.confirm

    def test_a_slave_that_is_asked_out_is_waited_for_until_the_answer(self) -> None:
        """RMQ-R114: until then it may be elected."""
        replicas = ReplicaSet()
        replicas.admit(2)
        replicas.leave(2)
        change = replicas.ask()
        replicas.append(100)
        assert 0 == replicas.confirm

        replicas.agree(change)
        assert 100 == replicas.confirm

    def test_a_polled_set_is_as_good_as_the_answer(self) -> None:
        """RMQ-R116, RMQ-R117: the answer was lost, the change was taken."""
        replicas = ReplicaSet()
        replicas.admit(2)
        replicas.leave(2)
        change = replicas.ask()
        replicas.monitor.unknown(change, replicas.now)
        replicas.append(100)
        assert 0 == replicas.confirm

        replicas.monitor.agreed(AgreedSet(change.members, 3), replicas.now)

        assert 100 == replicas.confirm
        assert replicas.asked_ids() is None

    def test_a_set_of_no_newer_version_changes_nothing(self) -> None:
        """RMQ-R118; RMQ-L.1.2: and version and content travel together."""
        replicas = ReplicaSet()
        replicas.admit(2)
        replicas.monitor.agreed(AgreedSet(members(1), 2), 0)
        replicas.monitor.agreed(AgreedSet(members(1), 1), 0)

        assert {1, 2} == replicas.set_ids

    def test_a_refusal_ends_the_union(self) -> None:
        """RMQ-R119: a refused slave is not waited for, and not proposed for a while."""
        replicas = ReplicaSet()
        replicas.connect(2)
        replicas.ack(2, 0)
        replicas.monitor.refused(replicas.ask(), frozenset({2}), 0)
        replicas.append(100)
        assert 100 == replicas.confirm
        replicas.ack(2, 100)
        assert replicas.asked_ids() is None

        replicas.wait_until(5_000)
        assert {1, 2} == replicas.asked_ids()

    def test_a_lost_answer_keeps_the_union(self) -> None:
        """RMQ-R119: a change that was not refused may still be taken."""
        replicas = ReplicaSet()
        replicas.connect(2)
        replicas.ack(2, 0)
        replicas.monitor.unknown(replicas.ask(), 0)
        replicas.leave(2)
        replicas.append(100)
        replicas.wait_until(60_000)

        assert 0 == replicas.confirm

    def test_a_doubt_is_settled_by_a_newer_version_of_the_same_set(self) -> None:
        """
        RMQ-R112, RMQ-R119: nothing that was computed before it can be taken any more.
        """
        replicas = ReplicaSet()
        replicas.connect(2)
        replicas.ack(2, 0)
        replicas.monitor.unknown(replicas.ask(), 0)
        replicas.leave(2)
        replicas.append(100)
        assert replicas.asked_ids() is None
        replicas.wait_until(1_000)

        change = replicas.ask()
        assert change.is_fence
        assert members(1) == change.members
        replicas.agree(change)

        assert 100 == replicas.confirm
        assert replicas.asked_ids() is None

    def test_reading_the_old_version_back_settles_nothing(self) -> None:
        """RMQ-R112, RMQ-R119: the request may still be under way."""
        replicas = ReplicaSet()
        replicas.connect(2)
        replicas.ack(2, 0)
        replicas.monitor.unknown(replicas.ask(), 0)
        replicas.leave(2)
        replicas.append(100)
        replicas.monitor.agreed(AgreedSet(members(1), 1), 0)

        assert 0 == replicas.confirm

    def test_a_refusal_of_the_repetition_does_not_refuse_the_first_attempt(
        self,
    ) -> None:
        """RMQ-R112, RMQ-R119: each attempt is answered for itself."""
        replicas = ReplicaSet()
        replicas.connect(2)
        replicas.ack(2, 0)
        first = replicas.ask()
        replicas.monitor.unknown(first, 0)
        replicas.wait_until(1_000)
        replicas.ack(2, 0)
        second = replicas.ask()
        assert first.members == second.members
        replicas.monitor.refused(second, frozenset({2}), replicas.now)
        replicas.append(100)
        assert 0 == replicas.confirm

        replicas.monitor.refused(first, frozenset({2}), replicas.now)
        replicas.append(200)
        assert 200 == replicas.confirm

    def test_a_caller_may_settle_changes_without_an_answer(self) -> None:
        """RMQ-R112: a controller that takes no second set like the first."""
        replicas = ReplicaSet()
        replicas.connect(2)
        replicas.ack(2, 0)
        replicas.monitor.unknown(replicas.ask(), 0)
        replicas.leave(2)
        replicas.append(100)
        replicas.monitor.settle_doubts(0)

        assert 100 == replicas.confirm

    def test_a_refusal_of_the_whole_is_followed_by_a_pause(self) -> None:
        """RMQ-R111: a wish that stays the same is not repeated in a loop."""
        replicas = ReplicaSet()
        replicas.admit(2)
        replicas.leave(2)
        replicas.monitor.refused(replicas.ask(), frozenset(), 0)
        assert replicas.asked_ids() is None
        replicas.wait_until(1_000)

        assert {1} == replicas.asked_ids()

    def test_a_refused_slave_does_not_hold_others_back(self) -> None:
        """RMQ-R111: the next change comes at once, without it."""
        replicas = ReplicaSet()
        for slave in (2, 3):
            replicas.connect(slave)
            replicas.ack(slave, 0)
        replicas.monitor.refused(replicas.ask(), frozenset({3}), 0)

        assert {1, 2} == replicas.asked_ids()

    def test_after_a_newer_epoch_nothing_is_asked_for(self) -> None:
        """RMQ-R92: the set is another master's."""
        replicas = ReplicaSet()
        replicas.connect(2)
        replicas.ack(2, 0)
        replicas.monitor.step_down(EPOCH)
        assert {1, 2} == replicas.asked_ids()
        replicas = ReplicaSet((1, 2))
        replicas.monitor.step_down(EPOCH + 1)
        replicas.wait_until(3_000)

        assert replicas.asked_ids() is None


class TestSuspension:
    """RMQ-K.3: a member is never suspended."""

    def test_a_member_is_not_suspended_before_it_has_left_the_set(self) -> None:
        """The change is committed first."""
        replicas = ReplicaSet()
        replicas.admit(2)
        assert not replicas.monitor.may_suspend(2)
        replicas.leave(2)
        change = replicas.ask()
        assert members(1) == change.members
        assert not replicas.monitor.may_suspend(2)
        replicas.agree(change)

        assert replicas.monitor.may_suspend(2)

    def test_a_slave_that_may_have_joined_is_not_suspended(self) -> None:
        """RMQ-R119: the answer was lost."""
        replicas = ReplicaSet()
        replicas.connect(2)
        replicas.ack(2, 0)
        replicas.monitor.unknown(replicas.ask(), 0)

        assert not replicas.monitor.may_suspend(2)


class TestBadAcks:
    """What no ack may do."""

    def test_an_ack_above_our_end_is_a_violation(self) -> None:
        """RMQ-R130: and it completes nothing."""
        replicas = ReplicaSet()
        replicas.admit(2)
        replicas.append(100)
        with pytest.raises(RemoteViolation, match="above the end 100"):
            replicas.ack(2, 2**40)

        assert 0 == replicas.confirm

    def test_an_ack_of_another_session_changes_nothing(self) -> None:
        """RMQ-R273: not even if it says more than we have."""
        replicas = ReplicaSet()
        replicas.admit(2)
        replicas.append(100)
        replicas.ack(2, 2**40, session=99)
        replicas.ack(5, 100, session=99)

        assert 0 == replicas.confirm
