"""
What a promise is worth: with a legacy slave, without a lease, in a newer epoch.
"""

from __future__ import annotations

import pytest
from lib.ha.replica_set import EPOCH, ReplicaSet

from pystore.ha.insync.ack import Ack, AckOutcome, AckResult, RefusalReason
from pystore.ha.insync.config import SetRules

NO_LEASE = None


def settle(replicas: ReplicaSet, lease: int | None = NO_LEASE) -> list[AckResult]:
    """The waits that are over now."""
    return replicas.waits.settle(replicas.now, lease)


def outcomes(replicas: ReplicaSet, lease: int | None = NO_LEASE) -> list[AckOutcome]:
    """How they ended."""
    return [one.outcome for one in settle(replicas, lease)]


def wait(replicas: ReplicaSet, ack: Ack, end: int, deadline: int = 3_000) -> None:
    """An append up to that end, and its wait."""
    replicas.append(end, 0)
    replicas.waits.begin(ack, end, deadline)


def refusal(replicas: ReplicaSet, ack: Ack) -> RefusalReason | None:
    """Why an append would be refused."""
    found = replicas.monitor.refusals[ack]
    return None if found is None else found.reason


class TestLegacy:
    """A legacy slave never says what is on its disk."""

    @staticmethod
    def with_legacy() -> ReplicaSet:
        """A set with a legacy slave."""
        replicas = ReplicaSet()
        replicas.connect(2, legacy=True)
        replicas.ack(2, 0)
        assert {1, 2} == replicas.settle_set()
        return replicas

    def test_all_synced_is_refused_while_one_is_in_the_set(self) -> None:
        """The one line names the broker."""
        replicas = self.with_legacy()
        assert RefusalReason.LEGACY_MEMBER is refusal(replicas, Ack.ALL_SYNCED)
        found = replicas.monitor.refusals[Ack.ALL_SYNCED]
        assert found is not None
        assert "broker 2" in found.text

        replicas.leave(2)
        replicas.settle_set()
        assert refusal(replicas, Ack.ALL_SYNCED) is None

    def test_a_wait_that_it_overtakes_is_not_reached(self) -> None:
        """It came in while the append waited for the master's disk."""
        replicas = ReplicaSet()
        wait(replicas, Ack.ALL_SYNCED, 100)
        replicas.connect(2, legacy=True)
        replicas.ack(2, 100)
        assert {1, 2} == replicas.settle_set()
        replicas.append(100, 100)
        assert [] == settle(replicas)

        replicas.wait_until(3_000)
        assert [AckOutcome.TIMED_OUT] == outcomes(replicas)

    def test_all_says_that_it_is_worth_less(self) -> None:
        """Where results and `status` name it."""
        replicas = self.with_legacy()
        wait(replicas, Ack.ALL, 100)
        replicas.ack(2, 100)

        (settled,) = settle(replicas)
        assert (AckOutcome.REACHED, "all (legacy)") == (
            settled.outcome,
            settled.promise,
        )
        assert {1, 2} == settled.received_by
        assert set() == settled.flushed_by

    def test_it_is_not_removed_for_what_it_cannot_say(self) -> None:
        """B9: its lag is judged by what it received."""
        replicas = self.with_legacy()
        replicas.append(100)
        replicas.ack(2, 100)
        replicas.wait_until(12_000)
        replicas.ack(2, 100)
        replicas.wait_until(23_000)

        assert replicas.asked_ids() is None

    def test_without_synced_acks_all_synced_is_refused(self) -> None:
        """B9: no disk was checked when the members joined."""
        replicas = ReplicaSet(rules=SetRules(serves_synced=False))

        assert RefusalReason.NOT_SERVED is refusal(replicas, Ack.ALL_SYNCED)
        assert 0 == replicas.monitor.ack_policy.completed(Ack.ALL_SYNCED)


class TestAuthority:
    """B8, C3: what ends with the lease, and what ends with the epoch."""

    @pytest.mark.parametrize("ack", [Ack.LEADER, Ack.LEADER_SYNCED])
    def test_after_the_lease_no_leader_ack_is_decided(self, ack: Ack) -> None:
        """RMQ-R80, RMQ-R81: though the bytes are there."""
        replicas = ReplicaSet()
        wait(replicas, ack, 100)
        replicas.append(100, 100)
        replicas.now = 1_001
        assert [AckOutcome.FENCED] == outcomes(replicas, lease=1_000)

        replicas.waits.begin(ack, 100, 3_000)
        assert [AckOutcome.REACHED] == outcomes(replicas, lease=1_001)

    def test_all_needs_no_lease(self) -> None:
        """C3: a master that was replaced does not get the acks."""
        replicas = ReplicaSet()
        replicas.admit(2)
        wait(replicas, Ack.ALL, 100)
        replicas.now = 2_000
        replicas.ack(2, 100)

        assert [AckOutcome.REACHED] == outcomes(replicas, lease=1_000)

    def test_a_newer_epoch_ends_every_wait(self) -> None:
        """B6, B8: acks that arrive afterwards complete nothing."""
        replicas = ReplicaSet()
        replicas.admit(2)
        for ack in Ack:
            wait(replicas, ack, 100)
        replicas.monitor.step_down(EPOCH + 1)
        replicas.ack(2, 100)
        replicas.append(100, 100)

        assert [AckOutcome.FENCED] * len(Ack) == outcomes(replicas)
        assert {RefusalReason.FENCED} == {refusal(replicas, ack) for ack in Ack}
        assert 0 == replicas.confirm

    def test_what_all_had_acked_before_a_newer_epoch_stays_reached(self) -> None:
        """B8: the new master is one of the replicas that acked it."""
        replicas = ReplicaSet()
        replicas.admit(2)
        wait(replicas, Ack.ALL, 100)
        replicas.ack(2, 100)
        replicas.monitor.step_down(EPOCH + 1)

        assert [AckOutcome.REACHED] == outcomes(replicas)

    def test_an_older_epoch_ends_nothing(self) -> None:
        """B6: nor does our own."""
        replicas = ReplicaSet()
        replicas.monitor.step_down(EPOCH - 1)
        replicas.monitor.step_down(EPOCH)

        assert refusal(replicas, Ack.LEADER) is None


class TestReading:
    """What consumers see."""

    def test_readers_stop_at_confirm_where_anybody_else_is_waited_for(self) -> None:
        """RMQ-R120, RMQ-R124: also while the only other one is still being asked in."""
        replicas = ReplicaSet()
        replicas.connect(2)
        replicas.ack(2, 0)
        replicas.ask()
        replicas.append(100)

        assert 0 == replicas.monitor.ack_policy.readable_offset(Ack.ALL)

    def test_readers_of_a_leader_s_log_wait_for_nobody(self) -> None:
        """RMQ-L.1.13: what was promised is what is read."""
        replicas = ReplicaSet()
        replicas.admit(2)
        replicas.append(100)

        assert 100 == replicas.monitor.ack_policy.readable_offset(Ack.LEADER)
