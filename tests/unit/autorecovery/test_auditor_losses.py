"""
Lost replicas, on each backend: when they are due.

BookKeeper's tests of its Auditor, by name:

| AuditorLedgerCheckerTest and others | here |
|---|---|
| testSimpleLedger, testMultipleBookieFailures | changed: a loss is a record of its replica: `test_a_dead_replica_is_recorded_with_the_time_of_its_death` |
| testRestartBookie | changed: a replica that returns is not lost: `test_a_replica_that_returns_in_time_is_forgotten` |
| testToggleLedgerReplication, testAuditingDuringRollingRestart | kept: `test_while_disabled_nothing_is_due` |
| testReadOnlyBookieExclusionFromURLedgersCheck, testReadOnlyBookieShutdown | kept: `test_a_replica_with_a_full_disk_is_lost_only_once_it_is_dead` |
| testDelayedAuditOfLostBookies, testDelayedAuditWithPeriodicBookieCheck | kept: `test_a_lost_replica_is_due_after_the_delay` |
| testRescheduleOfDelayedAuditOfLostBookiesToStartImmediately, testTriggerAuditorBySettingDelayToZeroWithPendingAuditTask | kept: `test_a_delay_that_is_set_to_zero_ends_the_waiting` |
| testRescheduleOfDelayedAuditOfLostBookiesToStartLater | changed (AR-R1): `test_another_delay_counts_from_the_loss` |
| testTriggerAuditorWithPendingAuditTask | kept: `test_the_same_delay_again_ends_the_waiting` |
| testTriggerAuditorWithNoPendingAuditTask | kept: `test_the_same_delay_again_looks_at_all_replicas` in test_auditor_looks |
| testDelayedAuditWithMultipleBookieFailures | changed (AR-R2): `test_a_second_loss_in_a_set_ends_the_waiting` |
| testDelayedAuditWithRollingUpgrade | kept: `test_a_rolling_restart_makes_nothing_due` |
| testPeriodicBookieCheckInterval | kept: `test_a_replica_that_was_dead_before_the_auditor_began_is_lost` |
| testShutdownAuditBookiesException | not kept: the next turn asks again: `test_without_a_word_of_the_controller_nothing_is_lost` |
| testDelayBookieAuditOfCheckAllLedgers and others | not kept: looks ask replicas that are alive, so no check goes around the delay |
"""  # noqa: E501 - a table

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from lib.autorecovery.audits import (
    ToldCluster,
    WatchedAuditor,
    a_broker,
    a_replica,
    a_set,
)
from lib.autorecovery.marks import Clock
from lib.remoting.record_stores import put

from pystore.autorecovery.loss import decode_loss
from pystore.autorecovery.loss_audit import NO_HOST, DueLoss
from pystore.autorecovery.maintenance import MaintenanceTarget, enter, leave
from pystore.autorecovery.replica_key import LOST, ReplicaKey
from pystore.autorecovery.replica_peers import ClusterView
from pystore.autorecovery.settings import RecoverySettings
from pystore.records.memory import MemoryStore
from pystore.records.ops import CheckVersion
from pystore.records.record_store import RecordStore

DELAY_S = 600


def recorded(store: RecordStore) -> list[str]:
    """The replicas with a record of their loss."""
    return [one.key.removeprefix(LOST) for one in store.scan(LOST)]


class TestDelay:
    """From the death of a replica until its loss is due."""

    def test_a_dead_replica_is_recorded_with_the_time_of_its_death(
        self, one: WatchedAuditor, cluster: ToldCluster, wall: Clock
    ) -> None:
        """BK-A35: the controller says since when."""
        one.step()
        cluster.die(2)
        died_ms = wall.now_ms
        one.after(30)
        found = one.store.get(a_replica(2).lost)
        assert found is not None
        loss = decode_loss(found.value, found.key)

        assert (died_ms, "10.0.0.2") == (loss.since_ms, loss.host)
        assert a_broker(2).incarnation == loss.incarnation

    def test_a_lost_replica_is_due_after_the_delay(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """BK-A24; turns in between do not undercut it, and it says why it stays."""
        one.step()
        cluster.die(2)
        one.after(DELAY_S - 1, every=100)
        assert [] == one.due()
        one.after(1)
        assert [2] == one.due()
        loss = one.auditor.losses[a_replica(2)]

        assert NO_HOST == loss.why
        assert loss.since_ms + 1000 * DELAY_S == loss.due_ms

    def test_without_a_delay_a_loss_is_due_at_once(
        self, store: RecordStore, cluster: ToldCluster, wall: Clock
    ) -> None:
        """BK-A23; BK-A22: the first Auditor's settings are stored."""
        one = WatchedAuditor(store, cluster, wall, begin=RecoverySettings(delay_s=0))
        cluster.die(3)
        one.step()

        assert [3] == one.due()
        assert 0 == one.queue.settings().delay_s

    def test_a_replica_that_returns_in_time_is_forgotten(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """BK-A25; when it dies again its delay begins again."""
        one.step()
        cluster.die(2)
        one.after(500)
        cluster.come_back(2, process=2)
        one.after(1)
        assert [] == recorded(one.store)
        cluster.die(2)
        one.after(500)

        assert [] == one.due()
        assert ["cluster/set/2"] == recorded(one.store)

    def test_a_replica_that_died_again_between_two_turns_waits_anew(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """Its process tells: another one was alive meanwhile."""
        cluster.die(2)
        one.after(500)
        cluster.come_back(2, process=2)
        cluster.die(2)
        one.after(500)
        assert [] == one.due()
        one.after(100)

        assert [2] == one.due()

    def test_a_rolling_restart_makes_nothing_due(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """BK-A27: one after the other is away, for less than the delay each."""
        for broker_id in (1, 2, 3):
            cluster.die(broker_id)
            one.after(400, every=50)
            cluster.come_back(broker_id, process=2)
            one.turns(2)
        cluster.die(2)
        one.after(DELAY_S - 2, every=200)
        assert [] == one.due()
        one.after(2)

        assert [2] == one.due()

    def test_a_delay_that_is_set_to_zero_ends_the_waiting(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """BK-A29; a delay below what was waited already is the same (P4)."""
        cluster.die(2)
        one.after(100)
        one.queue.change_settings({"delay_s": 200})
        one.after(1)
        assert [] == one.due()
        one.queue.change_settings({"delay_s": 90})
        one.after(1)
        assert [2] == one.due()
        one.queue.change_settings({"delay_s": 0})
        one.after(1)

        assert [2] == one.due()

    def test_another_delay_counts_from_the_loss(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """AR-R1; BookKeeper counts from the change (BK-A28)."""
        cluster.die(2)
        one.step()
        one.after(500)
        one.queue.change_settings({"delay_s": 700})
        one.after(199)
        assert [] == one.due()
        one.after(1)

        assert [2] == one.due()

    def test_the_same_delay_again_ends_the_waiting(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """BK-A30; a loss after it waits as ever."""
        one.step()
        cluster.die(2)
        one.after(10)
        one.queue.change_settings({"delay_s": DELAY_S})
        one.after(1)
        assert [2] == one.due()
        cluster.come_back(2)
        one.after(1)
        cluster.die(3)
        one.after(10)

        assert [] == one.due()

    def test_a_change_of_other_settings_ends_no_waiting(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """BK-A31."""
        one.step()
        cluster.die(2)
        one.after(10)
        one.queue.change_settings({"queue_window": 7})
        one.after(1)

        assert [] == one.due()

    def test_a_request_for_an_audit_ends_the_waiting_once(
        self, one: WatchedAuditor, two: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """An Auditor that follows does not obey it again."""
        one.step()
        cluster.die(2)
        one.after(10)
        one.queue.kick("test")
        one.after(1)
        assert [2] == one.due()
        cluster.come_back(2, process=2)
        one.after(1)
        one.store.close()
        cluster.die(2)
        two.turns(20)

        assert two.last.leads
        assert [] == two.due()

    def test_a_second_loss_in_a_set_ends_the_waiting(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """AR-R2: here, not for two sets that lost one each (BK-A26)."""
        cluster.sets["cluster", "other"] = a_set("other")
        one.step()
        cluster.die(2)
        cluster.die(3, "other")
        one.after(10)
        assert [] == one.due()
        cluster.die(3)
        one.after(1)
        assert [2, 3] == one.due()
        assert {"set"} == {each.replica.set_name for each in one.auditor.losses_due}
        cluster.come_back(3)
        one.after(1)
        assert [] == one.due()
        one.queue.change_settings({"multi_loss_immediate": False})
        cluster.die(3)
        one.after(1)

        assert [] == one.due()


class TestFailover:
    """Another Auditor, and clocks that are set."""

    def test_another_auditor_goes_on_waiting_for_the_same_delay(
        self, one: WatchedAuditor, two: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """P3, BK-A21: BookKeeper's audits at once, and forgets the delay."""
        one.step()
        cluster.die(2)
        one.after(400)
        assert not two.step().leads
        one.store.close()
        two.turns(30)
        assert two.last.leads
        two.after(DELAY_S - 431)
        assert [] == two.due()
        two.after(1)

        assert [2] == two.due()

    def test_another_controller_does_not_move_the_loss(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """It heard of the death only when it began to lead."""
        one.step()
        cluster.die(2)
        one.after(400)
        cluster.new_controller()
        one.after(5)
        cluster.may_replace = True
        one.after(DELAY_S - 406)
        assert [] == one.due()
        one.after(1)

        assert [2] == one.due()

    def test_an_auditor_and_a_controller_that_begin_together_forget_nothing(
        self, one: WatchedAuditor, two: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """Only the record knows since when."""
        cluster.die(2)
        one.after(400)
        one.store.close()
        cluster.new_controller()
        two.turns(15)
        cluster.may_replace = True
        two.after(DELAY_S - 416)
        assert [] == two.due()
        two.after(1)

        assert [2] == two.due()

    @pytest.mark.parametrize("jump_s", [3600, -3600])
    def test_a_clock_that_is_set_changes_no_waiting(
        self, one: WatchedAuditor, cluster: ToldCluster, wall: Clock, jump_s: int
    ) -> None:
        """P34: forward it would end it, back it would prolong it."""
        one.step()
        cluster.die(2)
        one.after(400)
        wall.now_ms += 1000 * jump_s
        cluster.new_controller()
        cluster.may_replace = True
        one.after(199)
        assert [] == one.due()
        one.after(2)

        assert [2] == one.due()

    def test_a_replica_that_was_dead_before_the_auditor_began_is_lost(
        self, one: WatchedAuditor, cluster: ToldCluster, wall: Clock
    ) -> None:
        """BK-A18: its delay counts from its death."""
        cluster.die(2)
        wall.now_ms += 1000 * (DELAY_S - 1)
        one.step()
        assert [] == one.due()
        one.after(1)

        assert [2] == one.due()


class TestEvidence:
    """Only the word of a controller that knows makes a loss."""

    def test_without_a_word_of_the_controller_nothing_is_lost(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """P14: counted, named, and asked again."""
        cluster.die(2)
        cluster.problem = "no answer in 3 s"
        one.turns(20)
        assert [] == recorded(one.store)
        assert 20 == one.auditor.numbers["unknown_views"]
        assert "no answer in 3 s" in one.last.waits_for
        cluster.problem = ""
        one.step()

        assert ["cluster/set/2"] == recorded(one.store)

    def test_a_controller_that_has_just_begun_to_lead_loses_nothing(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """D5: who is not heard yet is unknown; what was lost stays so, and waits."""
        one.step()
        cluster.die(2)
        one.after(DELAY_S)
        assert [2] == one.due()
        cluster.new_controller()
        cluster.change(a_replica(3), is_alive=False)
        one.turns(3)

        assert ["cluster/set/2"] == recorded(one.store)
        assert [] == one.due()

    def test_a_replica_with_a_full_disk_is_lost_only_once_it_is_dead(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """BK-A17."""
        cluster.change(a_replica(2), disk_problem="no space", disk_used_percent=99)
        one.turns(2)
        assert [] == recorded(one.store)
        cluster.die(2)
        one.step()

        assert ["cluster/set/2"] == recorded(one.store)

    def test_a_broker_of_rocketmq_is_lost_like_others(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """D7: it counts as a copy."""
        cluster.sets["cluster", "set"] = a_set(
            "set", a_broker(1), a_broker(2, is_java=True), a_broker(3)
        )
        one.step()
        cluster.die(2)
        one.after(DELAY_S)

        assert [2] == one.due()
        assert "" == one.auditor.losses[a_replica(2)].incarnation

    def test_a_set_with_an_unreadable_record_keeps_its_losses(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """A set that was removed has none."""
        cluster.die(2)
        one.step()
        cluster.damaged = (("cluster", "set"),)
        one.turns(2)
        assert ["cluster/set/2"] == recorded(one.store)
        cluster.damaged = ()
        cluster.remove("set")
        one.turns(2)

        assert [] == recorded(one.store)

    def test_a_record_that_cannot_be_read_hides_no_other_loss(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """It is written again if its replica is still dead."""
        put(one.store, a_replica(2).lost, b"ill")
        put(one.store, f"{LOST}nothing", b"ill")
        cluster.die(2)
        cluster.die(3)
        one.step()

        assert [a_replica(2), a_replica(3)] == sorted(one.auditor.losses)


class TestOperators:
    """What operators order."""

    def test_while_disabled_nothing_is_due(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """BK-A131; the time counts nevertheless."""
        one.queue.disable("test")
        cluster.die(2)
        one.after(DELAY_S, every=100)
        one.after(1)
        assert [] == one.due()
        assert "disabled" in one.last.waits_for
        one.queue.enable()
        one.after(1)

        assert [2] == one.due()

    def test_a_host_in_maintenance_is_not_due(
        self, one: WatchedAuditor, cluster: ToldCluster, wall: Clock
    ) -> None:
        """P5: it counts as lost since the end of its maintenance."""
        target = MaintenanceTarget("10.0.0.2")
        until_ms = wall.now_ms + 3_600_000
        enter(one.store, target, until_ms, by="test", now_ms=wall.now_ms)
        cluster.die(2)
        one.step()
        one.after(3_500)
        assert [] == one.due()
        assert 1 == one.auditor.numbers["in_maintenance"]
        one.after(100 + DELAY_S - 1)
        assert [] == one.due()
        one.after(1)

        assert [2] == one.due()

    def test_a_loss_beside_one_in_maintenance_ends_its_own_waiting(
        self, one: WatchedAuditor, cluster: ToldCluster, wall: Clock
    ) -> None:
        """The set lacks two copies, whatever the reasons; the other one stays."""
        target = MaintenanceTarget("", "cluster", "set", 2)
        until_ms = wall.now_ms + 3_600_000
        enter(one.store, target, until_ms, by="test", now_ms=wall.now_ms)
        cluster.die(2)
        one.step()
        cluster.die(3)
        one.after(10)
        assert [3] == one.due()
        leave(one.store, target)
        one.after(10)

        assert [2, 3] == one.due()


class Planned:
    """Makes replicas anew, it says."""

    numbers: Mapping[str, int] = {"misplaced": 3}

    def __init__(self) -> None:
        self.asked: list[list[ReplicaKey]] = []
        self.is_moving = False

    def replace(
        self,
        due: Sequence[DueLoss],
        view: ClusterView,
        settings: RecoverySettings,  # noqa: ARG002
        term: CheckVersion,
    ) -> Mapping[ReplicaKey, str]:
        """See `LossReplacements`."""
        assert "recovery/auditor" == term.key
        assert all(one.description in view.sets.values() for one in due)
        self.asked.append([one.replica for one in due])
        return {one.replica: "is made on host c" for one in due[:1]}


def test_what_is_due_is_handed_on_and_what_becomes_of_it_is_recorded(
    cluster: ToldCluster, wall: Clock
) -> None:
    """In each turn, until the set has its replicas again."""
    planned = Planned()
    store = MemoryStore()
    one = WatchedAuditor(store, cluster, wall, replacements=planned)
    cluster.die(2)
    cluster.die(3)
    one.step()
    one.after(1)

    assert [[a_replica(2), a_replica(3)]] * 2 == planned.asked
    losses = one.auditor.losses
    assert ["is made on host c", NO_HOST] == [losses[key].why for key in sorted(losses)]


def test_a_loss_is_written_once(cluster: ToldCluster, wall: Clock) -> None:
    """A turn in which nothing happens commits nothing."""
    store = MemoryStore()
    one = WatchedAuditor(store, cluster, wall)
    cluster.die(2)
    one.turns(20)
    before = {each.key: each.version for each in store.scan("recovery/")}
    one.turns(30)
    after = {each.key: each.version for each in store.scan("recovery/")}

    assert before == after


def test_thousands_of_losses_are_written_in_parts(wall: Clock) -> None:
    """A commit has a largest size, which a lost room exceeds."""
    sets = [a_set(f"{'set' * 20}-{number}") for number in range(3000)]
    cluster = ToldCluster(wall, *sets)
    for one in sets:
        cluster.die(2, one.name)
    store = MemoryStore()
    WatchedAuditor(store, cluster, wall).step()

    assert 3000 == len(recorded(store))
