"""
A host that is to go: looked ahead, emptied, waited for, and forgotten at last.
"""

from __future__ import annotations

import pytest
from lib.autorecovery.marks import LOST_COPY, a_mark
from lib.autorecovery.replacement_auditor import Crash, Recovery
from lib.autorecovery.replacement_model import SETTINGS, ModelCluster, key_of

from pystore.autorecovery.dead_segment import DeadSegment, encode_dead
from pystore.autorecovery.decommission import Decommission, preflight
from pystore.autorecovery.replacement_record import (
    LeftReplica,
    ReplacementPhase,
    WaitReason,
)
from pystore.autorecovery.replacement_target import HostFacts
from pystore.autorecovery.segment_key import SegmentKey
from pystore.errors import InvalidError
from pystore.records.memory import MemoryStore
from pystore.records.ops import Put
from pystore.records.record_store import RecordStore


def orders(recovery: Recovery) -> Decommission:
    """
    Of an operator; with each look at the clock a second passes, and the Auditor steps.
    """

    def clock_ms() -> int:
        recovery.step()
        return recovery.cluster.now_ms

    cluster = recovery.cluster
    return Decommission(
        recovery.store, cluster, cluster, clock_ms=clock_ms, by="operator"
    )


def five() -> ModelCluster:
    """
    Two sets on three hosts, and two spares.
    """
    cluster = ModelCluster(dict.fromkeys("abcde", ""))
    cluster.add_set("set-0", "a", "b", "c")
    cluster.add_set("set-1", "b", "a", "c")
    return cluster


def in_memory(cluster: ModelCluster) -> Recovery:
    """
    Records in memory, whose waits do not block.
    """

    class Store(MemoryStore):
        def wait(self, token: int, timeout_s: float, space: str = "") -> int:
            return super().wait(token, min(timeout_s, 0.0), space)

    return Recovery(Store(), cluster)


def hosts_of(cluster: ModelCluster, name: str) -> str:
    """
    The hosts of a set, all of whose members are good.
    """
    one = cluster.sets["cluster", name]
    assert sorted(one.brokers) == sorted(one.good())
    return "".join(sorted(it.host for it in one.brokers.values()))


def test_a_live_host_is_emptied_while_it_serves_and_forgotten_at_last() -> None:
    """
    AR-R23: the plan comes true; the identity goes when nothing needs it.
    """
    cluster = five()
    recovery = in_memory(cluster)
    operator = orders(recovery)
    plan = operator.start("a", drain=True)
    assert plan.is_possible
    assert {"d", "e"} == {one.target for one in plan.moves}
    with pytest.raises(InvalidError, match="host a is not empty: cluster/set-0/1"):
        operator.finish("a")
    found = operator.wait("a", 300)

    assert found.is_done
    assert not found.is_blocked
    assert {plan.moves[0].target, "b", "c"} == set(hosts_of(cluster, "set-0"))
    assert {plan.moves[1].target, "b", "c"} == set(hosts_of(cluster, "set-1"))
    operator.finish("a")
    assert "a" not in cluster.hosts
    assert "forget a" == cluster.asked[-1]
    assert [] == recovery.store.scan("recovery/drain/")


def test_a_live_host_is_refused_without_drain() -> None:
    """
    BK-A133.
    """
    recovery = in_memory(five())
    with pytest.raises(InvalidError, match="host a is alive: stop it first"):
        orders(recovery).start("a")
    assert [] == recovery.store.scan("recovery/drain/")


def test_a_dead_host_is_replaced_at_once_and_forgotten() -> None:
    """
    Without the delay of a loss; what waits for its return ends with its identity.
    """
    cluster = five()
    recovery = in_memory(cluster)
    cluster.kill("a")
    operator = orders(recovery)
    operator.start("a")
    found = operator.wait("a", 50)
    assert found.is_done
    assert {ReplacementPhase.CLEARING} == {
        one.phase for one in recovery.records.values()
    }
    operator.finish("a")
    recovery.run()

    assert "bcd" == hosts_of(cluster, "set-0")
    assert "a" not in cluster.hosts


def test_two_hosts_in_a_row_leave_no_record() -> None:
    """
    BookieDecommissionTest.testDecommissionBookie.
    """
    cluster = five()
    recovery = in_memory(cluster)
    operator = orders(recovery)
    for host in "ab":
        operator.start(host, drain=True)
        assert operator.wait(host, 300).is_done
        operator.finish(host)

    assert ["cde", "cde"] == [hosts_of(cluster, f"set-{n}") for n in range(2)]
    keys = [one.key for one in recovery.store.scan("recovery/")]
    assert ["recovery/auditor", "recovery/replacements"] == keys


def test_a_cancelled_drain_keeps_the_replicas_where_they_are() -> None:
    """
    AR-R26.
    """
    cluster = five()
    cluster.fill = 1
    recovery = in_memory(cluster)
    operator = orders(recovery)
    operator.start("a", drain=True)
    assert not operator.wait("a", 20).is_done
    assert operator.cancel("a")
    assert not operator.cancel("a")
    recovery.run()

    assert ["abc", "abc"] == [hosts_of(cluster, f"set-{n}") for n in range(2)]
    assert all(not cluster.hosts[host].stores for host in "de")
    assert not operator.progress("a").is_asked


def test_a_plan_names_each_blocker_with_its_reason() -> None:
    """
    AR-R23: space that one replica takes is not there for the next one.
    """
    cluster = ModelCluster(dict.fromkeys("abcd", ""))
    for number in range(3):
        cluster.add_set(f"set-{number}", "a", "b", "c")
    cluster.hosts["d"].free = 2_500
    cluster.hosts["d"].used_percent = 50
    cluster.sets["cluster", "set-2"].size = 800
    facts = HostFacts(
        cluster.all_sets().sets, cluster.all_hosts(), {}, frozenset(), SETTINGS
    )
    plan = preflight(facts, "a", dead=lambda _, name: ["s/0"] * (name == "set-2"))

    assert ["set-0"] == [one.key.set_name for one in plan.moves]
    assert {WaitReason.NO_TARGET, WaitReason.DEAD_SEGMENTS} == plan.blockers.keys()
    (full,) = plan.blockers[WaitReason.NO_TARGET]
    assert "set-1" == full.key.set_name
    assert (
        "d: the set needs 1.10 kB, 2.50 kB is free, 1.10 kB of it promised" in full.text
    )
    (dead,) = plan.blockers[WaitReason.DEAD_SEGMENTS]
    assert ("s/0",) == dead.segments
    recovery = in_memory(cluster)
    with pytest.raises(InvalidError, match="cannot be emptied: no target: 2"):
        orders(recovery).start("a", drain=True, is_strict=True)
    assert [] == recovery.store.scan("recovery/drain/")
    with pytest.raises(InvalidError, match="no host 'x'; known: a, b, c, d"):
        preflight(facts, "x")


def test_a_blocked_drain_says_so_with_names_and_does_not_wait() -> None:
    """
    BK-A137 is not kept: a dead segment, and no host for another set.
    """
    cluster = ModelCluster(dict.fromkeys("abcd", ""))
    cluster.add_set("set-0", "a", "b", "c")
    cluster.add_set("set-1", "a", "b", "d")
    cluster.fill = 0
    cluster.hosts["c"].used_percent = 99
    recovery = in_memory(cluster)
    segment = SegmentKey("cluster", "set-0", 0)
    dead = DeadSegment(a_mark({2: LOST_COPY}), "2: absent", 5, "w/0")
    operator = orders(recovery)
    assert operator.start("a", drain=True).moves
    recovery.store.commit([Put(segment.dead, encode_dead(dead))])
    began_ms = cluster.now_ms
    found = operator.wait("a", 1_000)

    assert (False, True) == (found.is_done, found.is_blocked)
    assert cluster.now_ms < began_ms + 100_000
    (one,) = found.blockers[WaitReason.DEAD_SEGMENTS]
    assert (segment.text,) == one.segments
    (other,) = found.blockers[WaitReason.NO_TARGET]
    assert ("set-1", True) == (other.key.set_name, "c: its disk is 99 %" in other.text)
    assert found.left_bytes == 1_900


def test_a_wait_ends_with_its_time() -> None:
    """
    The replicas that are left are named.
    """
    cluster = five()
    cluster.fill = 1
    recovery = in_memory(cluster)
    operator = orders(recovery)
    operator.start("a", drain=True)
    found = operator.wait("a", 30)

    assert (False, False) == (found.is_done, found.is_blocked)
    assert [key_of("set-0", 1), key_of("set-1", 2)] == list(found.left)


def test_what_another_replacement_left_on_a_host_is_removed_first() -> None:
    """
    A host is not empty while it has a replica that nothing needs.
    """
    cluster = five()
    cluster.fill = 1
    recovery = in_memory(cluster)
    operator = orders(recovery)
    operator.start("a", drain=True)
    operator.wait("a", 20)
    (target,) = {recovery.records[key_of("set-0", 1)].target}
    operator.start(target, drain=True)
    found = operator.progress(target)
    assert key_of("set-0", 1) in found.left
    cluster.fill = 1_000
    assert operator.wait(target, 200).is_done

    assert {} == cluster.hosts[target].replicas
    assert LeftReplica(target, 4) not in [
        it for one in recovery.records.values() for it in one.left
    ]


def test_an_identity_that_is_gone_is_finished_again(store: RecordStore) -> None:
    """
    The process ended between the identity and the record of the host.
    """
    cluster = ModelCluster(dict.fromkeys("ab", ""))
    recovery = Recovery(store, cluster)
    operator = orders(recovery)
    operator.start("a", drain=True)
    calls = iter((None, None))

    def called() -> None:
        if next(calls, 1) is None and "forget a" in cluster.asked:
            raise Crash

    cluster.called = called
    with pytest.raises(Crash):
        operator.finish("a")
    assert 1 == len(store.scan("recovery/drain/"))
    operator.finish("a")

    assert [] == store.scan("recovery/drain/")
    assert {"b"} == set(cluster.hosts)


def test_a_host_is_not_forgotten_without_the_order_to_empty_it() -> None:
    """
    A spare would vanish by a wrong name.
    """
    recovery = in_memory(five())
    with pytest.raises(InvalidError, match="host d is not being emptied"):
        orders(recovery).finish("d")
