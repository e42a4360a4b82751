"""
The confirm offset: RMQ-C.6, and what holds it.
"""

from __future__ import annotations

import pytest
from lib.ha.replica_set import ReplicaSet, member, members

from pystore.ha.insync.ack import Ack
from pystore.ha.insync.confirm_offset import ConfirmOffset
from pystore.replicaset import AgreedSet


def acked_set(*acks: int) -> ReplicaSet:
    """A set of the master at 1 000 and one member per ack."""
    replicas = ReplicaSet()
    ids = range(2, 2 + len(acks))
    replicas.admit(*ids)
    replicas.append(500)
    replicas.append(1_000)
    for broker_id, offset in zip(ids, acks, strict=True):
        replicas.ack(broker_id, offset)
    return replicas


class TestConfirm:
    """RMQ-C.6: the lowest ack of all, and never lower than it was."""

    def test_it_is_the_lowest_ack_of_all_members(self) -> None:
        """RMQ-R121: and of the master itself."""
        assert 500 == acked_set(1_000, 500, 1_000).confirm

    def test_it_never_passes_the_end_of_the_log(self) -> None:
        """RMQ-R121: the master is a member."""
        replicas = acked_set(1_000, 1_000)

        assert 1_000 == replicas.confirm

    def test_it_is_the_end_of_a_whole_record(self) -> None:
        """A1: a slave may hold half of one."""
        assert 500 == acked_set(999, 750).confirm
        assert 0 == acked_set(499).confirm

    def test_a_member_without_a_session_freezes_it(self) -> None:
        """RMQ-R122, RMQ-R213, RMQ-R214; RMQ-L.1.5: the others' acks move nothing."""
        replicas = acked_set(500, 500)
        replicas.leave(3)
        replicas.ack(2, 1_000)

        assert 500 == replicas.confirm

    def test_a_member_that_has_not_acked_yet_freezes_it(self) -> None:
        """
        RMQ-R123, RMQ-R129; RMQ-L.1.6: it is not passed over, and drags nothing down.
        """
        replicas = acked_set(500, 500)
        replicas.connect(3)
        replicas.ack(2, 1_000)

        assert 500 == replicas.confirm

    def test_a_member_that_acks_nothing_holds_it(self) -> None:
        """RMQ-R129: an ack of 0 is an ack."""
        assert 0 == acked_set(1_000, 0).confirm

    def test_a_lower_ack_after_a_reconnect_does_not_take_it_back(self) -> None:
        """RMQ-R128: a member that holds less than the confirm offset is removed."""
        replicas = acked_set(1_000)
        assert 1_000 == replicas.confirm
        replicas.connect(2)
        replicas.ack(2, 500)
        assert 1_000 == replicas.confirm

        change = replicas.ask()
        assert (
            "broker 2 left the SyncStateSet: it holds less than the confirm offset"
            == change.reason
        )
        replicas.agree(change)
        assert 1_000 == replicas.confirm

    def test_a_new_set_does_not_take_it_back(self) -> None:
        """
        RMQ-R126, RMQ-R128: a set that is adopted late, with a member that is behind.
        """
        replicas = ReplicaSet()
        replicas.append(100)
        replicas.connect(2)
        replicas.ack(2, 100)
        change = replicas.ask()
        replicas.leave(2)
        replicas.agree(change)
        replicas.connect(2)
        replicas.ack(2, 50)

        assert 100 == replicas.confirm

    def test_a_learner_neither_holds_it_nor_moves_it(self) -> None:
        """RMQ-R203, RMQ-M.5: whatever it acks."""
        replicas = ReplicaSet()
        replicas.connect(9, learner=True)
        replicas.ack(9, 0)
        replicas.append(100)
        assert 100 == replicas.confirm

        replicas = acked_set(0)
        replicas.connect(2, learner=True)
        replicas.ack(2, 1_000)
        assert 0 == replicas.confirm

    def test_a_lone_master_confirms_what_it_has(self) -> None:
        """RMQ-R127: also what it had above the confirm offset that it knew."""
        replicas = ReplicaSet(end=700, confirm=300)

        assert 700 == replicas.confirm

    def test_a_stored_offset_beyond_the_log_is_brought_down(self) -> None:
        """RMQ-L.1.7: the log lost its tail, the offset did not know."""
        assert 700 == ConfirmOffset(700, 700, 900).confirm_offset
        assert 700 == ReplicaSet((1, 2), end=700, confirm=900).confirm

    def test_an_inherited_set_holds_it_until_every_member_acked(self) -> None:
        """RMQ-R126: nothing of it is assumed."""
        replicas = ReplicaSet((1, 2), end=700, confirm=300)
        assert 300 == replicas.confirm
        replicas.connect(2)
        assert 300 == replicas.confirm

        replicas.ack(2, 700)
        assert 700 == replicas.confirm


class TestCandidates:
    """B7: a candidate may be elected, so acks wait for it."""

    def test_a_candidate_holds_the_confirm_offset(self) -> None:
        """Without a session, without an ack, and with a low one."""
        replicas = ReplicaSet(candidates=[2], end=700, confirm=300)
        replicas.append(800)
        assert 300 == replicas.confirm
        replicas.connect(2)
        assert 300 == replicas.confirm
        replicas.ack(2, 700)

        assert 700 == replicas.confirm

    def test_nothing_is_acked_by_all_while_there_is_a_candidate(self) -> None:
        """It has to be admitted or removed by a committed change first."""
        replicas = ReplicaSet(candidates=[2], end=700, confirm=300)
        replicas.connect(2)
        replicas.ack(2, 700)
        change = replicas.ask()
        assert members(1, 2) == change.members
        assert not change.candidates
        assert 0 == replicas.monitor.ack_policy.completed(Ack.ALL)

        replicas.agree(change)
        assert 700 == replicas.monitor.ack_policy.completed(Ack.ALL)
        assert 700 == replicas.monitor.ack_policy.completed(Ack.ALL_SYNCED)

    def test_a_candidate_that_does_not_come_is_removed(self) -> None:
        """B12: after the time that a member may lag, and not with the first check."""
        replicas = ReplicaSet(candidates=[2, 3], end=700, confirm=300)
        replicas.wait_until(14_999)
        assert replicas.asked_ids() is None
        replicas.wait_until(15_000)
        change = replicas.ask()
        assert members(1) == change.members
        assert not change.candidates
        assert 300 == replicas.confirm

        replicas.agree(change)
        assert 700 == replicas.confirm == replicas.monitor.ack_policy.completed(Ack.ALL)

    @pytest.mark.parametrize("start", [1, 2])
    def test_a_restarted_candidate_is_removed_before_it_is_admitted(
        self, start: int
    ) -> None:
        """B1: the one that may be elected is another process."""
        replicas = ReplicaSet(candidates=[2], end=700, confirm=300)
        replicas.connect(2, start=start)
        replicas.ack(2, 700)
        change = replicas.ask()

        assert (start == 1) == (member(2, start) in change.members)
        replicas.agree(change)
        assert {1, 2} == replicas.settle_set()
        assert member(2, start) in replicas.monitor.set_now.members

    def test_a_candidate_that_continues_takes_the_older_one_s_place(self) -> None:
        """B2, B7: it joins once, and no candidate is left to wait for."""
        replicas = ReplicaSet(candidates=[2], end=700, confirm=300)
        continuing = frozenset({member(2, 2)})
        agreed = AgreedSet(members(1), 2, members(2), continuing)
        replicas.monitor.agreed(agreed, 0)
        replicas.connect(2, start=2)
        replicas.ack(2, 700)

        change = replicas.ask()
        assert {member(1), member(2, 2)} == change.members
        assert not change.candidates
