"""
Joining and leaving the SyncStateSet: RMQ-C.1 to RMQ-C.3.
"""

from __future__ import annotations

import pytest
from lib.ha.replica_set import EPOCH, ReplicaSet, member, members

from pystore.errors import LocalViolation
from pystore.ha.insync.ack import Ack
from pystore.ha.insync.config import SetRules
from pystore.ha.wire.codes import AckStatus
from pystore.replicaset import AgreedSet


class TestExpand:
    """RMQ-C.1: slaves that are proposed for the set."""

    def test_a_slave_that_holds_everything_is_asked_in_at_once(self) -> None:
        """RMQ-R82: with its ack, not with the next check."""
        replicas = ReplicaSet(end=100)
        replicas.connect(2)
        assert replicas.asked_ids() is None

        replicas.ack(2, 100)

        change = replicas.ask()
        assert members(1, 2) == change.members
        assert (EPOCH, 1) == (change.epoch, change.set_epoch)
        assert "broker 2 joined the SyncStateSet: it is in sync" == change.reason

    def test_a_learner_is_never_asked_in(self) -> None:
        """RMQ-R82, RMQ-R201: it may hold everything."""
        replicas = ReplicaSet(end=100)
        replicas.connect(2, learner=True)
        replicas.ack(2, 100)

        assert replicas.asked_ids() is None

    def test_a_filling_slave_is_asked_in_under_a_controller_that_knows_it(self) -> None:
        """B11: a controller that grants no lease is one of RocketMQ."""
        replicas = ReplicaSet(end=100)
        replicas.connect(2, filling=True)
        replicas.ack(2, 100)
        assert replicas.asked_ids() is None

        replicas.monitor.leased()
        replicas.ack(2, 100)
        change = replicas.ask()
        assert members(1, 2) == change.members
        assert frozenset({2}) == change.filling

    def test_only_those_that_join_are_named_as_filling(self) -> None:
        """B11: the controller has to know them before it elects among them."""
        replicas = ReplicaSet(end=100)
        replicas.monitor.leased()
        replicas.connect(2, filling=True)
        replicas.ack(2, 100)
        replicas.agree(replicas.ask())
        replicas.connect(3)
        replicas.ack(3, 100)

        assert frozenset() == replicas.ask().filling

    def test_a_slave_below_the_epochs_start_is_not_asked_in(self) -> None:
        """RMQ-R83, RMQ-R85: it has not shown that it holds this master's history."""
        replicas = ReplicaSet((1, 3), end=100, confirm=40)
        replicas.connect(2)
        replicas.ack(2, 99, sent=0)

        assert 40 == replicas.confirm
        assert replicas.asked_ids() is None

    def test_a_slave_below_the_confirm_offset_is_not_asked_in(self) -> None:
        """RMQ-R82: every replica that may be elected holds what was confirmed."""
        replicas = ReplicaSet(rules=SetRules(serves_synced=False))
        replicas.append(100)
        replicas.connect(2)
        replicas.ack(2, 99, sent=0)

        assert 100 == replicas.confirm
        assert replicas.asked_ids() is None

    def test_a_slave_far_behind_is_not_waited_for(self) -> None:
        """RMQ-R82: it was caught up too long ago to be about to come in."""
        replicas = ReplicaSet()
        replicas.append(100)
        replicas.now = 5_000
        replicas.connect(2)
        replicas.ack(2, 50, sent=3_999)
        replicas.append(200)

        assert 200 == replicas.confirm
        assert replicas.asked_ids() is None

    def test_under_load_a_slave_comes_in_although_it_never_holds_all(self) -> None:
        """
        RMQ-R82: the confirm offset waits for a nearly caught-up slave, so it can be
        reached.
        """
        replicas = ReplicaSet()
        replicas.append(1_000)
        replicas.connect(2)
        replicas.ack(2, 900, sent=0)
        replicas.append(2_000)
        replicas.append(3_000)
        assert 1_000 == replicas.confirm
        assert replicas.asked_ids() is None

        replicas.ack(2, 1_500, sent=0)

        assert {1, 2} == replicas.asked_ids()
        assert 1_000 == replicas.confirm

    def test_acks_do_not_wait_for_a_joiner_that_stalls(self) -> None:
        """RMQ-R82: it was never a member, so a second is all that it costs."""
        replicas = ReplicaSet()
        replicas.append(100)
        replicas.connect(2)
        replicas.ack(2, 50, sent=0)
        replicas.append(200)
        assert 100 == replicas.confirm

        replicas.wait_until(1_001)

        assert 200 == replicas.confirm

    def test_a_member_s_acks_cause_no_request(self) -> None:
        """RMQ-R86: nothing would change."""
        replicas = ReplicaSet()
        replicas.admit(2)
        replicas.append(100)
        replicas.ack(2, 100)

        assert replicas.asked_ids() is None

    def test_a_slave_that_ails_is_not_asked_in(self) -> None:
        """RMQ-K.3: full, poisoned or leaving, it holds everything, and not for long."""
        for status in AckStatus:
            replicas = ReplicaSet()
            replicas.connect(2)
            replicas.ack(2, 0, status=status)
            expected = {1, 2} if status is AckStatus.OK else None
            assert expected == replicas.asked_ids(), status

    def test_a_slave_that_has_not_flushed_acked_bytes_is_not_proposed(self) -> None:
        """B3, B9: every `all-synced` record is on the disk of every member."""
        replicas = ReplicaSet(end=100)
        replicas.connect(2)
        replicas.ack(2, 100, flushed=99)
        assert 100 == replicas.monitor.ack_policy.completed(Ack.ALL_SYNCED)
        assert replicas.asked_ids() is None

        replicas.ack(2, 100, flushed=100)
        assert {1, 2} == replicas.asked_ids()

    def test_without_synced_acks_no_wait_needs_a_disk(self) -> None:
        """B9: the set promises caches."""
        replicas = ReplicaSet(end=100, rules=SetRules(serves_synced=False))
        replicas.connect(2)
        replicas.ack(2, 100, flushed=0)

        assert {1, 2} == replicas.asked_ids()


class TestShrink:
    """RMQ-C.2: members that are removed."""

    def test_a_member_that_was_not_caught_up_for_too_long_goes(self) -> None:
        """RMQ-R87: 15 s, looked at every 5 s."""
        replicas = ReplicaSet()
        replicas.admit(2)
        replicas.append(100)
        replicas.ack(2, 50)

        replicas.wait_until(17_999)
        assert replicas.asked_ids() is None
        replicas.wait_until(18_000)

        change = replicas.ask()
        assert members(1) == change.members
        assert (
            "broker 2 left the SyncStateSet: it was not caught up for 15000 ms"
            == change.reason
        )

    def test_a_silent_slave_that_left_an_idle_set_joins_with_its_next_ack(self) -> None:
        """Else it would leave and join as fast as the controller commits."""
        replicas = ReplicaSet()
        replicas.admit(2)
        replicas.append(100)
        replicas.ack(2, 100)
        replicas.wait_until(18_000)
        change = replicas.ask()
        assert members(1) == change.members
        replicas.agree(change)

        replicas.wait_until(40_000)
        assert replicas.asked_ids() is None
        replicas.ack(2, 100)
        assert {1, 2} == replicas.asked_ids()

    def test_a_member_that_catches_up_after_the_check_stays(self) -> None:
        """RMQ-R87, RMQ-R90: the wish is computed from what is true now."""
        replicas = ReplicaSet()
        replicas.admit(2)
        replicas.append(100)
        replicas.ack(2, 50)
        replicas.wait_until(18_000)
        replicas.ack(2, 100)

        assert replicas.asked_ids() is None

    def test_a_member_that_never_connected_goes_with_the_first_check(self) -> None:
        """RMQ-R88: what was inherited is cleaned up."""
        replicas = ReplicaSet((1, 2))
        replicas.wait_until(2_999)
        assert replicas.asked_ids() is None

        replicas.wait_until(3_000)
        assert {1} == replicas.asked_ids()

    def test_a_member_whose_link_ends_goes_at_once(self) -> None:
        """RMQ-R89, RMQ-R200: without waiting for the lag to grow."""
        replicas = ReplicaSet()
        replicas.admit(2)
        replicas.leave(2)

        assert {1} == replicas.asked_ids()

    def test_a_member_that_leaves_gracefully_goes_at_once(self) -> None:
        """RMQ-K.3: also while its link still lives to send the last bytes."""
        replicas = ReplicaSet()
        replicas.admit(2, 3)
        replicas.ack(2, 0, status=AckStatus.SHUTTING_DOWN)
        replicas.leave(3, graceful=True)

        assert {1} == replicas.asked_ids()

    def test_nothing_is_asked_where_nothing_changes(self) -> None:
        """RMQ-R90: also right behind an answer."""
        replicas = ReplicaSet()
        replicas.admit(2)

        assert replicas.asked_ids() is None

    def test_a_link_that_comes_back_in_time_changes_nothing(self) -> None:
        """RMQ-R90: a slave that left and came back before anything was asked stays."""
        replicas = ReplicaSet()
        replicas.admit(2)
        replicas.leave(2)
        replicas.connect(2)

        assert replicas.asked_ids() is None

    def test_the_master_is_in_every_set_that_it_asks_for(self) -> None:
        """RMQ-R91: and a set without it is refused as another mastership's."""
        replicas = ReplicaSet((1, 2))
        replicas.wait_until(3_000)
        assert member(1) in replicas.ask().members

        with pytest.raises(LocalViolation, match="lacks broker 1"):
            replicas.monitor.agreed(AgreedSet(members(2), 9), 0)

    def test_two_members_that_leave_at_once_leave_together(self) -> None:
        """RMQ-R93: one set without both, never two sets with one of them each."""
        replicas = ReplicaSet()
        replicas.admit(2, 3, 4)
        replicas.leave(3)
        replicas.leave(4)

        assert {1, 2} == replicas.asked_ids()

    def test_a_member_that_leaves_meanwhile_leaves_with_the_next_change(self) -> None:
        """RMQ-R93: one request at a time; the next is computed from the answer."""
        replicas = ReplicaSet()
        replicas.admit(2, 3)
        replicas.leave(2)
        change = replicas.ask()
        replicas.leave(3)
        assert replicas.asked_ids() is None

        replicas.agree(change)

        assert {1} == replicas.asked_ids()

    def test_a_link_that_ends_twice_ends_once(self) -> None:
        """RMQ-R94: removal is by the link's own number."""
        replicas = ReplicaSet()
        replicas.admit(2)
        replicas.leave(2)
        replicas.agree(replicas.ask())
        replicas.leave(2)

        assert replicas.asked_ids() is None

    def test_the_end_of_a_replaced_session_leaves_the_set_alone(self) -> None:
        """RMQ-R95: the slave's new link is well."""
        replicas = ReplicaSet()
        replicas.admit(2)
        first = replicas.connect(2)
        replicas.connect(2)
        replicas.ack(2, 0)
        replicas.leave(2, session=first)

        assert replicas.asked_ids() is None
        assert {1, 2} == replicas.set_ids

    def test_a_check_that_was_held_up_does_not_judge(self) -> None:
        """RMQ-R87: after a pause of the master its slaves' acks are still unread."""
        replicas = ReplicaSet()
        replicas.admit(2)
        replicas.append(100)
        replicas.now = 60_000
        replicas.monitor.tick(60_000)
        replicas.ack(2, 50)
        assert replicas.asked_ids() is None

        replicas.wait_until(65_000)
        assert {1} == replicas.asked_ids()


class TestLastCaughtUp:
    """RMQ-C.3: what proves that a slave keeps up."""

    @pytest.mark.parametrize(("sent", "stays"), [(3_000, True), (2_999, False)])
    def test_an_ack_counts_from_when_its_frame_was_sent(
        self, sent: int, stays: bool
    ) -> None:
        """RMQ-R96, RMQ-R97: not from when it arrived."""
        replicas = ReplicaSet(rules=SetRules(serves_synced=False))
        replicas.admit(2)
        replicas.append(100)
        replicas.wait_until(13_000)
        replicas.ack(2, 60, sent=sent)

        replicas.wait_until(18_000)
        assert (None if stays else {1}) == replicas.asked_ids()

    def test_an_ack_of_everything_counts_from_now(self) -> None:
        """RMQ-R97: whenever its frame was sent."""
        replicas = ReplicaSet()
        replicas.admit(2)
        replicas.wait_until(10_000)
        replicas.append(100)
        replicas.ack(2, 100, sent=1)
        replicas.append(200)

        replicas.wait_until(23_000)
        assert replicas.asked_ids() is None
        replicas.wait_until(28_000)
        assert {1} == replicas.asked_ids()

    def test_the_time_survives_a_reconnect(self) -> None:
        """RMQ-R98: it belongs to the slave, not to its link."""
        replicas = ReplicaSet()
        replicas.admit(2)
        replicas.wait_until(10_000)
        replicas.ack(2, 0)
        replicas.append(100)
        replicas.leave(2)
        replicas.connect(2)

        replicas.wait_until(23_000)
        assert replicas.asked_ids() is None
        replicas.wait_until(28_000)
        assert {1} == replicas.asked_ids()

    def test_a_silent_slave_falls_behind_whatever_is_sent_to_it(self) -> None:
        """RMQ-R99: sends are no facts here, and a new link is no ack."""
        replicas = ReplicaSet()
        replicas.admit(2)
        for now in range(0, 18_000, 500):
            replicas.wait_until(now)
            replicas.append(now + 100)
            assert replicas.asked_ids() is None, now
        replicas.wait_until(18_000)

        assert {1} == replicas.asked_ids()
