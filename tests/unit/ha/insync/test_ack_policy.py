"""
Acks: what each waits for, and how many copies are enough: F.
"""

from __future__ import annotations

from lib.ha.replica_set import ReplicaSet

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


class TestCompletion:
    """What each ack waits for."""

    def test_leader_waits_for_nobody(self) -> None:
        """RMQ-R205, RMQ-R208: the bytes are in the master's log."""
        replicas = ReplicaSet()
        replicas.admit(2)
        wait(replicas, Ack.LEADER, 100)

        (settled,) = settle(replicas)
        assert (100, AckOutcome.REACHED) == (settled.end_offset, settled.outcome)
        assert {1} == settled.received_by

    def test_leader_synced_waits_for_the_master_s_disk(self) -> None:
        """RMQ-R212: and for no other's."""
        replicas = ReplicaSet()
        wait(replicas, Ack.LEADER_SYNCED, 100)
        assert [] == settle(replicas)
        replicas.append(100, 100)

        assert [AckOutcome.REACHED] == outcomes(replicas)

    def test_all_waits_for_every_member(self) -> None:
        """RMQ-R207, RMQ-R210: the last one decides."""
        replicas = ReplicaSet()
        replicas.admit(2, 3)
        wait(replicas, Ack.ALL, 100)
        replicas.ack(2, 100)
        assert [] == settle(replicas)
        replicas.ack(3, 99)
        assert [] == settle(replicas)
        replicas.ack(3, 100, flushed=0)

        (settled,) = settle(replicas)
        assert {1, 2, 3} == settled.received_by
        assert {2} == settled.flushed_by
        assert "all" == settled.promise

    def test_all_of_a_lone_master_is_reached_at_once(self) -> None:
        """RMQ-R210: there is no other replica."""
        replicas = ReplicaSet()
        wait(replicas, Ack.ALL, 100)

        assert [AckOutcome.REACHED] == outcomes(replicas)

    def test_all_synced_waits_for_every_disk(self) -> None:
        """RMQ-R183: received is not flushed, and the master's own disk counts."""
        replicas = ReplicaSet()
        replicas.admit(2)
        wait(replicas, Ack.ALL_SYNCED, 100)
        replicas.ack(2, 100, flushed=0)
        assert [] == settle(replicas)
        replicas.ack(2, 100)
        assert [] == settle(replicas)
        replicas.append(100, 100)

        (settled,) = settle(replicas)
        assert AckOutcome.REACHED is settled.outcome
        assert {1, 2} == settled.flushed_by

    def test_a_learner_s_ack_counts_for_nothing(self) -> None:
        """RMQ-R203: neither for the promise nor in what was reached."""
        replicas = ReplicaSet()
        replicas.admit(2)
        replicas.connect(3, learner=True)
        wait(replicas, Ack.ALL, 100)
        replicas.ack(3, 100)
        assert [] == settle(replicas)
        replicas.ack(2, 100)

        assert {1, 2} == settle(replicas)[0].received_by

    def test_two_links_of_one_slave_are_one_copy(self) -> None:
        """RMQ-R217: the newest of them counts, the third broker is still waited for."""
        replicas = ReplicaSet(rules=SetRules(min_in_sync=3))
        replicas.admit(2, 3)
        wait(replicas, Ack.ALL, 100)
        old = replicas.connect(2)
        replicas.connect(2)
        replicas.ack(2, 100)
        replicas.ack(2, 100, session=old)
        assert [] == settle(replicas)
        replicas.ack(3, 100)

        assert {1, 2, 3} == settle(replicas)[0].received_by

    def test_an_ack_of_a_replaced_link_is_not_taken_for_the_new_one_s(self) -> None:
        """RMQ-R217: what the old one says late is void."""
        replicas = ReplicaSet()
        replicas.admit(2)
        wait(replicas, Ack.ALL, 100)
        old = replicas.connect(2)
        replicas.connect(2)
        replicas.ack(2, 100, session=old)

        assert [] == settle(replicas)

    def test_a_wait_ends_though_an_earlier_one_still_waits(self) -> None:
        """RMQ-R218: waits end by their offset, not in the order of their begin."""
        replicas = ReplicaSet()
        replicas.admit(2)
        replicas.append(100)
        wait(replicas, Ack.ALL, 200)
        replicas.waits.begin(Ack.ALL, 100, 3_000)
        replicas.ack(2, 150)
        assert [100] == [one.end_offset for one in settle(replicas)]
        replicas.ack(2, 200)

        assert [200] == [one.end_offset for one in settle(replicas)]

    def test_a_wait_whose_ack_came_with_its_deadline_is_reached(self) -> None:
        """RMQ-R218: acks are looked at once more before the time is up."""
        replicas = ReplicaSet()
        replicas.admit(2)
        wait(replicas, Ack.ALL, 100, deadline=3_000)
        replicas.now = 3_000
        replicas.ack(2, 100)

        assert [AckOutcome.REACHED] == outcomes(replicas)

    def test_the_slowest_ack_ends_the_wait(self) -> None:
        """RMQ-R219: each change of the offset is seen, not each new maximum."""
        replicas = ReplicaSet()
        replicas.admit(2, 3)
        wait(replicas, Ack.ALL, 100)
        replicas.ack(3, 100)
        assert [] == settle(replicas)
        replicas.ack(2, 100)

        assert [AckOutcome.REACHED] == outcomes(replicas)

    def test_time_runs_out_and_the_record_stays(self) -> None:
        """RMQ-R211: it may be confirmed later."""
        replicas = ReplicaSet()
        replicas.admit(2)
        wait(replicas, Ack.ALL, 100)
        replicas.wait_until(2_999)
        assert [] == settle(replicas)
        replicas.now = 3_000

        assert [AckOutcome.TIMED_OUT] == outcomes(replicas)
        replicas.ack(2, 100)
        assert 100 == replicas.confirm

    def test_after_the_dead_member_is_out_waits_end_again(self) -> None:
        """RMQ-R213: not a moment before the controller agreed."""
        replicas = ReplicaSet()
        replicas.admit(2)
        replicas.leave(2)
        wait(replicas, Ack.ALL, 100)
        change = replicas.ask()
        assert [] == settle(replicas)
        replicas.agree(change)

        assert [AckOutcome.REACHED] == outcomes(replicas)

    def test_an_isolated_master_acks_nothing_by_all(self) -> None:
        """RMQ-R214: no answer comes, so the others stay waited for."""
        replicas = ReplicaSet()
        replicas.admit(2)
        replicas.leave(2)
        ends = []
        for now in range(0, 60_000, 1_000):
            replicas.wait_until(now)
            wait(replicas, Ack.ALL, now + 100, now + 3_000)
            if (change := replicas.monitor.proposal(now)) is not None:
                replicas.monitor.unknown(change, now)
            ends += outcomes(replicas)

        assert {AckOutcome.TIMED_OUT} == set(ends)


class TestMinimum:
    """`min_in_sync`: before the append, and when it completes."""

    def test_a_set_that_is_too_small_takes_nothing(self) -> None:
        """RMQ-R206: nothing is in the log; `leader` asks for no copies (RMQ-R205)."""
        replicas = ReplicaSet(rules=SetRules(min_in_sync=2))
        assert RefusalReason.NOT_ENOUGH is refusal(replicas, Ack.ALL)
        assert RefusalReason.NOT_ENOUGH is refusal(replicas, Ack.ALL_SYNCED)
        assert refusal(replicas, Ack.LEADER) is None
        assert refusal(replicas, Ack.LEADER_SYNCED) is None

        replicas.admit(2)
        assert refusal(replicas, Ack.ALL) is None

    def test_the_larger_of_two_open_sets_decides_before_the_append(self) -> None:
        """RMQ-R115: it may be the controller's by now."""
        replicas = ReplicaSet(rules=SetRules(min_in_sync=2))
        replicas.connect(2)
        replicas.ack(2, 0)
        replicas.ask()

        assert refusal(replicas, Ack.ALL) is None

    def test_copies_that_acked_are_counted_not_members(self) -> None:
        """RMQ-R215: an isolated master's last set is still large."""
        replicas = ReplicaSet(rules=SetRules(min_in_sync=2))
        replicas.admit(2)
        replicas.leave(2)
        assert refusal(replicas, Ack.ALL) is None
        wait(replicas, Ack.ALL, 100)
        replicas.ask()
        replicas.wait_until(3_000)

        assert [AckOutcome.TIMED_OUT] == outcomes(replicas)

    def test_a_set_that_shrank_while_a_write_waits_is_too_small_for_it(self) -> None:
        """RMQ-R216: stored, and on fewer replicas than were promised."""
        replicas = ReplicaSet(rules=SetRules(min_in_sync=2))
        replicas.admit(2)
        wait(replicas, Ack.ALL, 100)
        replicas.leave(2)
        replicas.agree(replicas.ask())
        assert [] == settle(replicas)
        assert 100 == replicas.confirm
        replicas.wait_until(3_000)

        (settled,) = settle(replicas)
        assert AckOutcome.NOT_ENOUGH is settled.outcome
        assert {1} == settled.received_by

    def test_a_member_that_comes_back_in_time_makes_the_copies_enough(self) -> None:
        """RMQ-R216: the wait lasts to its deadline."""
        replicas = ReplicaSet(rules=SetRules(min_in_sync=2))
        replicas.admit(2)
        wait(replicas, Ack.ALL, 100)
        replicas.leave(2)
        replicas.agree(replicas.ask())
        replicas.connect(2)
        replicas.ack(2, 100)
        change = replicas.ask()
        assert [] == settle(replicas)
        replicas.agree(change)

        assert [AckOutcome.REACHED] == outcomes(replicas)

    def test_a_copy_that_may_not_be_let_in_is_not_counted(self) -> None:
        """RMQ-R114, RMQ-R216: only members whatever the answer will be."""
        replicas = ReplicaSet(rules=SetRules(min_in_sync=2))
        replicas.connect(2)
        replicas.ack(2, 0)
        replicas.monitor.unknown(replicas.ask(), 0)
        wait(replicas, Ack.ALL, 100)
        replicas.ack(2, 100)
        replicas.wait_until(3_000)

        assert [AckOutcome.NOT_ENOUGH] == outcomes(replicas)
