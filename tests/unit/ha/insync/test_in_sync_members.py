"""
A member is a process: what restarts, and what the controller says of it (B1 to B9).
"""

from __future__ import annotations

import pytest
from lib.ha.replica_set import ReplicaSet, member, members

from pystore.ha.insync.ack import Ack
from pystore.ha.insync.config import SetRules
from pystore.ha.wire.codes import AckStatus
from pystore.replicaset import AgreedSet, Member


class TestIncarnation:
    """B1, B2: a restarted replica is not the one that was listed."""

    def test_a_restarted_member_does_not_speak_for_the_listed_one(self) -> None:
        """B1: whatever it acks; the listed one goes at once."""
        replicas = ReplicaSet()
        replicas.admit(2)
        replicas.append(100)
        replicas.connect(2, start=2)
        replicas.ack(2, 100)

        assert 0 == replicas.confirm
        change = replicas.ask()
        assert members(1) == change.members
        replicas.agree(change)
        assert 100 == replicas.confirm

    def test_it_is_admitted_again_as_the_process_that_it_is(self) -> None:
        """B1, B2: with what it holds now, by the usual rule."""
        replicas = ReplicaSet()
        replicas.admit(2)
        replicas.append(100)
        replicas.connect(2, start=2)
        replicas.ack(2, 100)
        replicas.agree(replicas.ask())

        change = replicas.ask()
        assert {member(1), member(2, 2)} == change.members

    def test_a_restarted_process_that_lost_nothing_counts_as_the_listed_one(
        self,
    ) -> None:
        """B2: the controller looked at its clean mark, or at what it has left."""
        replicas = ReplicaSet()
        replicas.admit(2)
        replicas.append(100)
        replicas.connect(2, start=2)
        replicas.ack(2, 100)
        continuing = frozenset({member(2, 2)})
        agreed = AgreedSet(members(1, 2), 3, continuing=continuing)
        replicas.monitor.agreed(agreed, 0)

        assert 100 == replicas.confirm
        assert replicas.asked_ids() is None

    def test_an_older_process_of_the_same_broker_does_not_displace_a_newer(
        self,
    ) -> None:
        """RMQ-K.3: two processes with one broker id; the older one is to be closed."""
        replicas = ReplicaSet()
        replicas.connect(2, start=2)
        replicas.ack(2, 0)
        replicas.settle_set()
        replicas.connect(2, start=1)
        replicas.append(100)
        replicas.ack(2, 100)

        assert 100 == replicas.confirm
        assert replicas.asked_ids() is None

    def test_a_controller_without_incarnations_means_the_ones_asked_for(self) -> None:
        """B1: it answers with broker ids; a restarted replica is still another."""
        replicas = ReplicaSet()
        replicas.connect(2)
        replicas.ack(2, 0)
        replicas.ask()
        plain = frozenset({Member(1), Member(2)})
        replicas.monitor.agreed(AgreedSet(plain, 2), 0)
        assert members(1, 2) == replicas.monitor.set_now.members

        replicas.connect(2, start=2)
        assert {1} == replicas.asked_ids()


class TestFlushed:
    """B9: in a set that serves `all-synced`, caught up means flushed."""

    @staticmethod
    def unflushed(rules: SetRules | None = None) -> ReplicaSet:
        """A member that receives everything and flushes nothing, for 20 s."""
        replicas = ReplicaSet(rules=rules)
        replicas.admit(2)
        for now in range(0, 20_000, 250):
            replicas.wait_until(now)
            replicas.append(now + 100)
            replicas.ack(2, now + 100, flushed=100)
        return replicas

    def test_a_member_that_does_not_flush_goes(self) -> None:
        """After as long as a member may lag."""
        change = self.unflushed().ask()

        assert members(1) == change.members
        assert (
            "broker 2 left the SyncStateSet: it did not flush for 15000 ms"
            == change.reason
        )

    def test_it_is_not_waited_for_once_it_is_out(self) -> None:
        """It holds everything but on its disk, and so never comes in."""
        replicas = self.unflushed()
        replicas.settle_set()
        end = replicas.end
        replicas.append(end + 10)

        assert end + 10 == replicas.monitor.ack_policy.completed(Ack.ALL_SYNCED)
        assert replicas.asked_ids() is None

    def test_it_stays_in_a_set_without_all_synced(self) -> None:
        """The set promises caches."""
        assert self.unflushed(SetRules(serves_synced=False)).asked_ids() is None

    def test_a_member_that_flushes_late_stays(self) -> None:
        """It has passed the end of 15 s ago."""
        replicas = ReplicaSet()
        replicas.admit(2)
        for now in range(0, 40_000, 250):
            replicas.wait_until(now)
            replicas.append(now + 100)
            replicas.ack(2, now + 100, flushed=max(100, now - 14_000))
            assert replicas.asked_ids() is None, now

    @pytest.mark.parametrize("serves_synced", [True, False])
    def test_a_poisoned_member_goes_at_once(self, serves_synced: bool) -> None:
        """Nothing of it gets durable any more."""
        replicas = ReplicaSet(rules=SetRules(serves_synced=serves_synced))
        replicas.admit(2)
        replicas.ack(2, 0, status=AckStatus.POISONED)

        assert ({1} if serves_synced else None) == replicas.asked_ids()

    def test_a_poisoned_master_resigns_where_another_is_well(self) -> None:
        """After 15 s in which it could not clear it; never without a heir."""
        replicas = ReplicaSet()
        replicas.admit(2)
        replicas.monitor.poisoned(0)
        replicas.wait_until(14_000)
        replicas.ack(2, 0)
        assert not replicas.monitor.must_resign(15_000)
        assert replicas.monitor.must_resign(15_001)

        replicas.ack(2, 0, status=AckStatus.POISONED)
        assert not replicas.monitor.must_resign(15_001)
        replicas.ack(2, 0)
        replicas.leave(2)
        assert not replicas.monitor.must_resign(15_001)
        assert not ReplicaSet().monitor.must_resign(60_000)

    def test_a_master_that_refuses_appends_resigns_where_another_is_well(self) -> None:
        """B13: after its own limit, never without an heir or after the log grew."""
        replicas = ReplicaSet(rules=SetRules(resign_ms=2_000))
        replicas.admit(2)
        for now in (0, 1_500):
            replicas.wait_until(now)
            replicas.ack(2, 0)
            replicas.monitor.append_refused("no space", 0, now)
        assert "appends are refused: no space" == replicas.monitor.problem(1_500)
        assert not replicas.monitor.must_resign(2_000)
        assert replicas.monitor.must_resign(2_001)

        replicas.ack(2, 0, status=AckStatus.DISK_FULL)
        assert not replicas.monitor.must_resign(2_001)
        replicas.ack(2, 0)
        assert replicas.monitor.must_resign(2_001)
        replicas.append(100)
        assert not replicas.monitor.must_resign(2_001)
        assert "" == replicas.monitor.problem(2_001)


class TestElection:
    """D of the rules: attempts around an election that break nothing."""

    def test_a_shrink_without_answer_does_not_free_the_old_master(self) -> None:
        """B8: it still needs the acks of replicas that may have been elected."""
        replicas = ReplicaSet()
        replicas.admit(2, 3)
        replicas.leave(2)
        replicas.leave(3)
        replicas.monitor.unknown(replicas.ask(), 0)
        replicas.append(100)
        replicas.wait_until(30_000)

        assert 0 == replicas.monitor.ack_policy.completed(Ack.ALL)

    def test_an_admission_that_commits_after_a_power_cut_admits_nobody(self) -> None:
        """D: the process that was let in is gone, the new one is not it."""
        replicas = ReplicaSet(end=100)
        replicas.connect(2)
        replicas.ack(2, 100)
        change = replicas.ask()
        replicas.connect(2, start=2)
        replicas.ack(2, 60)
        replicas.agree(change)
        replicas.append(200)

        assert 100 == replicas.confirm
        assert {1} == replicas.asked_ids()
