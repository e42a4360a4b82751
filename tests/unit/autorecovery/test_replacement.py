"""
Replicas that are replaced, on a cluster in memory, with records on each backend.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import pytest
from lib.autorecovery.marks import corrupt
from lib.autorecovery.replacement_auditor import AUDITOR, Recovery
from lib.autorecovery.replacement_model import SETTINGS, SIZE, ModelCluster, key_of
from lib.autorecovery.replacement_stories import (
    LOST,
    ask,
    drain,
    four_hosts,
    in_memory,
    members,
    only,
    steps,
)

from pystore.autorecovery.mark import Priority
from pystore.autorecovery.marking import NewMark, mark_all
from pystore.autorecovery.replacement_record import (
    ReplacementPhase,
    ReplacementReason,
    WaitReason,
)
from pystore.autorecovery.replacement_requests import (
    cancel_replacement,
    end_drain,
    forget_replacement,
)
from pystore.autorecovery.segment_key import SegmentKey
from pystore.errors import FencedError, InvalidError
from pystore.records.memory import Fault, MemoryStore
from pystore.records.ops import Delete, Put
from pystore.records.record_store import RecordStore

WIPED = ReplacementReason.WIPED


def test_a_lost_replica_is_made_anew_on_a_spare(store: RecordStore) -> None:
    """
    It is filled and admitted, then the lost one is cleaned; once its host is back, what
    it had is removed there.
    """
    cluster = four_hosts()
    recovery = Recovery(store, cluster)
    cluster.kill("b")
    ask(recovery, 2)
    for _ in range(60):
        recovery.step()
    assert {"a": 1, "c": 3, "d": 4} == members(cluster)
    (one,) = recovery.records.values()
    assert ReplacementPhase.CLEARING is one.phase
    cluster.start("b")
    recovery.run()

    assert {"a": 1, "c": 3, "d": 4} == members(cluster)
    assert {} == cluster.hosts["b"].replicas
    assert ["add d set", "clean set 2", "remove b set"] == cluster.asked
    assert (("cluster", "set"), 2) in cluster.hosts["b"].stores


def test_a_host_is_emptied_while_it_serves(store: RecordStore) -> None:
    """
    The master hands over first; the old replica goes once the new one is whole.
    """
    cluster = four_hosts()
    recovery = Recovery(store, cluster)
    drain(recovery, "a")
    for _ in range(60):
        recovery.step()

    assert {"b": 2, "c": 3, "d": 4} == members(cluster)
    assert [
        "add d set",
        "master 2",
        "remove a set",
        "clean set 1",
    ] == cluster.asked
    assert {} == recovery.records
    assert {} == cluster.hosts["a"].replicas


def test_a_drain_that_is_cancelled_leaves_nothing() -> None:
    """
    The new replica goes with its store, its id is cleaned, and the host goes on.
    """
    cluster = four_hosts()
    cluster.fill = 1
    recovery = in_memory(cluster)
    drain(recovery, "b")
    steps(recovery, 20)
    assert ReplacementPhase.FILLING is only(recovery).phase
    assert end_drain(recovery.store, "b", "test", cluster.now_ms)
    recovery.run()

    assert {"a": 1, "b": 2, "c": 3} == members(cluster)
    assert {} == cluster.hosts["d"].replicas
    assert set() == cluster.hosts["d"].stores
    assert [] == recovery.store.scan("recovery/drain/")


def test_a_lost_replica_that_returns_ends_its_replacement() -> None:
    """
    While the new one is filling: what was filled is given up.
    """
    cluster = four_hosts()
    cluster.fill = 1
    recovery = in_memory(cluster)
    cluster.kill("b")
    ask(recovery, 2)
    steps(recovery, 20)
    assert ReplacementPhase.FILLING is only(recovery).phase
    cluster.start("b")
    recovery.run()

    assert {"a": 1, "b": 2, "c": 3} == members(cluster)
    assert set() == cluster.hosts["d"].stores


def test_a_lost_replica_that_returns_too_late_goes_all_the_same() -> None:
    """
    The new one is whole: the set keeps it.
    """
    cluster = four_hosts()
    recovery = in_memory(cluster)
    cluster.kill("b")
    ask(recovery, 2)
    while only(recovery).phase is not ReplacementPhase.RETIRING:
        recovery.step()
    cluster.start("b")
    recovery.run()

    assert {"a": 1, "c": 3, "d": 4} == members(cluster)
    assert {} == cluster.hosts["b"].replicas


def test_a_replacement_is_cancelled_until_the_new_replica_is_whole() -> None:
    """
    Then it is too late: the line says what to do instead.
    """
    cluster = four_hosts()
    recovery = in_memory(cluster)
    key = key_of("set", 2)
    assert not cancel_replacement(recovery.store, key, "test", 1)
    cluster.kill("b")
    ask(recovery, 2)
    while only(recovery).phase is not ReplacementPhase.RETIRING:
        recovery.step()
    with pytest.raises(InvalidError, match="broker 4 on d is whole"):
        cancel_replacement(recovery.store, key, "test", 1)


def test_a_cancel_that_comes_as_the_new_replica_becomes_whole_keeps_it() -> None:
    """
    I5: without it the set would have fewer good copies. The cancel was too late.
    """
    cluster = four_hosts()
    cluster.fill = 1
    recovery = in_memory(cluster)
    cluster.kill("b")
    ask(recovery, 2)
    steps(recovery, 20)
    assert cancel_replacement(recovery.store, key_of("set", 2), "test", 1)
    cluster.fill = SIZE
    steps(recovery, 40)

    assert {"a": 1, "c": 3, "d": 4} == members(cluster)
    cluster.start("b")
    recovery.run()


def test_a_wiped_replica_is_made_anew_where_it_was() -> None:
    """
    AR-R22: without a spare; its empty store goes first.
    """
    cluster = ModelCluster({"a": "", "b": "", "c": ""})
    cluster.add_set("set", "a", "b", "c")
    recovery = in_memory(cluster)
    cluster.wipe("b", "set")
    ask(recovery, 2, WIPED)
    recovery.run()

    assert {"a": 1, "b": 4, "c": 3} == members(cluster)
    assert ["remove b set", "clean set 2", "add b set"] == cluster.asked


def test_a_lost_replica_that_returns_with_an_empty_disk_is_replaced() -> None:
    """
    Its return ends nothing.
    """
    cluster = ModelCluster({"a": "", "b": "", "c": ""})
    cluster.add_set("set", "a", "b", "c")
    recovery = in_memory(cluster)
    cluster.kill("b")
    ask(recovery, 2)
    steps(recovery, 10)
    assert (ReplacementPhase.WANTED, WaitReason.NO_TARGET) == (
        only(recovery).phase,
        only(recovery).waits_for,
    )
    assert "a: it has a replica of the set" in only(recovery).problem
    cluster.wipe("b", "set")
    cluster.start("b")
    recovery.run()

    assert {"a": 1, "b": 4, "c": 3} == members(cluster)


def test_a_host_that_dies_while_it_is_filled_is_given_up_after_the_delay() -> None:
    """
    Another one takes over; what the first one had is removed once it is back.
    """
    cluster = ModelCluster(dict.fromkeys("abcde", ""))
    cluster.add_set("set", "a", "b", "c")
    cluster.fill = 1
    recovery = in_memory(cluster)
    drain(recovery, "b")
    steps(recovery, 10)
    assert "d" == only(recovery).target
    cluster.kill("d")
    steps(recovery, SETTINGS.delay_s - 10)
    assert "d" == only(recovery).target
    cluster.fill = SIZE
    steps(recovery, 60)
    assert {"a": 1, "c": 3, "e": 5} == members(cluster)
    assert ReplacementPhase.CLEARING is only(recovery).phase
    assert not recovery.replacements.handles("cluster", "set", 5)
    cluster.start("d")
    recovery.run()

    assert {} == cluster.hosts["d"].replicas
    assert set() == cluster.hosts["d"].stores


def test_the_loss_of_a_new_replica_is_no_loss_of_its_own() -> None:
    """
    Its replacement takes care of it, and the Auditor asks for no other one.
    """
    cluster = four_hosts()
    cluster.fill = 1
    recovery = in_memory(cluster)
    ask(recovery, 2, LOST)
    cluster.kill("b")
    steps(recovery, 20)
    handles = recovery.replacements.handles

    assert [False, True, False, True] == [
        handles("cluster", "set", n) for n in range(1, 5)
    ]
    assert not handles("cluster", "other", 2)


def test_a_host_that_refuses_five_times_is_not_asked_again_at_first() -> None:
    """
    The rests between grow, and another host is chosen.
    """
    cluster = ModelCluster(dict.fromkeys("abcde", ""))
    cluster.add_set("set", "a", "b", "c")
    cluster.hosts["d"].refuses = "the disk is read only"
    recovery = in_memory(cluster)
    drain(recovery, "b")
    steps(recovery, 3)
    assert "refused: the disk is read only" == only(recovery).problem
    while recovery.records:
        recovery.step()
        assert cluster.now_ms < 2_000_000

    assert {"a": 1, "c": 3, "e": 4} == members(cluster)
    assert 5 == cluster.asked.count("add d set")


def test_a_good_copy_stays_until_the_set_has_enough_without_it() -> None:
    """
    I5: another member is dead, so the drained one waits for its return.
    """
    cluster = four_hosts()
    recovery = in_memory(cluster)
    drain(recovery, "b")
    steps(recovery, 3)
    cluster.kill("c")
    steps(recovery, 60)
    one = only(recovery)
    assert (ReplacementPhase.RETIRING, WaitReason.TOO_FEW_COPIES) == (
        one.phase,
        one.waits_for,
    )
    assert "broker 3 is not alive" in one.problem
    cluster.start("c")
    recovery.run()

    assert {"a": 1, "c": 3, "d": 4} == members(cluster)


def test_a_good_copy_stays_while_a_segment_elsewhere_is_damaged() -> None:
    """
    I5: it may be the only one from which that segment can be repaired.
    """
    cluster = four_hosts()
    recovery = in_memory(cluster)
    key = SegmentKey("cluster", "set", 0)
    mark_all(
        recovery.store,
        [NewMark(key, {3: corrupt(1)}, Priority.FEWER_THAN_WANTED)],
        "test",
        1,
        None,
    )
    drain(recovery, "b")
    steps(recovery, 60)
    one = only(recovery)
    assert (ReplacementPhase.RETIRING, WaitReason.DAMAGED_SEGMENTS) == (
        one.phase,
        one.waits_for,
    )
    assert key.text in one.problem
    recovery.store.commit([Delete(key.mark)])
    recovery.run()

    assert {"a": 1, "c": 3, "d": 4} == members(cluster)


def test_a_set_without_a_master_is_left_alone() -> None:
    """
    Nothing could fill a new replica.
    """
    cluster = four_hosts()
    recovery = in_memory(cluster)
    for host in "abc":
        cluster.kill(host)
    ask(recovery, 2)
    steps(recovery, 60)

    assert [] == cluster.asked
    assert WaitReason.NO_MASTER is only(recovery).waits_for


def test_what_is_told_as_not_alive_by_a_new_controller_is_not_dead() -> None:
    """
    AR-R6: it does not know yet.
    """
    cluster = four_hosts()
    recovery = in_memory(cluster)
    cluster.kill("b")
    cluster.may_replace = False
    ask(recovery, 2)
    steps(recovery, 30)
    assert [] == cluster.asked
    cluster.may_replace = True
    steps(recovery, 30)
    assert {"a": 1, "c": 3, "d": 4} == members(cluster)


def test_a_learner_is_replaced_by_a_learner() -> None:
    """
    It is whole without being a member.
    """
    cluster = ModelCluster(dict.fromkeys("abcd", ""))
    one = cluster.add_set("set", "a", "b", learners=["c"])
    recovery = in_memory(cluster)
    drain(recovery, "c")
    steps(recovery, 60)

    assert {} == recovery.records
    assert [("a", False), ("b", False), ("d", True)] == [
        (it.host, it.is_learner) for it in one.brokers.values()
    ]


def test_only_so_many_replicas_are_replaced_at_once() -> None:
    """
    In the cluster, and on each host; all get their turn.
    """
    cluster = ModelCluster(dict.fromkeys("abcde", ""))
    for number in range(9):
        cluster.add_set(f"set-{number}", "a", "b", "c")
    cluster.fill = 100
    few = replace(SETTINGS, replacements_at_once=3, replacements_per_host=2)
    recovery = in_memory(cluster, few)
    drain(recovery, "a")
    most, fills = 0, Counter[str]()
    for _ in range(300):
        recovery.step()
        running = [it for it in recovery.records.values() if it.phase.is_running]
        most = max(most, len(running))
        busy = [it.target for it in running if it.phase.value != "retiring"]
        fills |= Counter(busy)

    assert {} == recovery.records
    assert (3, {"d": 2, "e": 2}) == (most, dict(fills))
    assert [5, 4] == sorted(len(cluster.hosts[it].replicas) for it in "de")[::-1]


def test_two_replicas_of_one_set_are_replaced_on_two_hosts() -> None:
    """
    I3: also while neither is there yet.
    """
    cluster = ModelCluster(dict.fromkeys("abcde", ""))
    cluster.add_set("set", "a", "b", "c")
    recovery = in_memory(cluster)
    drain(recovery, "a")
    drain(recovery, "b")
    steps(recovery, 90)

    assert {} == recovery.records
    assert {"c", "d", "e"} == set(members(cluster))


def test_an_auditor_whose_term_is_over_asks_for_nothing() -> None:
    """
    P2: its commit before a request is refused.
    """
    cluster = four_hosts()
    store = MemoryStore()
    old = Recovery(store, cluster)
    drain(old, "b")
    old.step()
    store.commit([Put(AUDITOR, b"another")])
    with pytest.raises(FencedError, match="another Auditor"):
        steps(old, 5)
    assert [] == cluster.asked


def test_a_damaged_record_hides_no_other_one() -> None:
    """
    It is told, and can be forgotten.
    """
    cluster = four_hosts()
    recovery = in_memory(cluster)
    broken = key_of("other", 1)
    recovery.store.commit([Put(broken.record, b"{")])
    drain(recovery, "b")
    steps(recovery, 60)

    assert {"a": 1, "c": 3, "d": 4} == members(cluster)
    assert any("recovery/replace/cluster/other/1" in line for line in recovery.said)
    assert forget_replacement(recovery.store, broken, "test", 1)
    assert not forget_replacement(recovery.store, broken, "test", 1)


def test_nothing_to_replace_costs_one_request_a_step() -> None:
    """
    AR-R19: and the hosts are not asked.
    """
    calls: list[str] = []

    def fault(verb: str) -> Fault:
        calls.append(verb)
        return Fault.NONE

    cluster = four_hosts()
    recovery = Recovery(MemoryStore(faults=fault), cluster)
    recovery.step()
    calls.clear()
    steps(recovery, 10)

    assert ["get"] * 10 == calls


@pytest.mark.parametrize("fault", [Fault.LOST_REQUEST, Fault.LOST_ANSWER])
def test_lost_answers_of_the_record_store_are_settled_by_reading(fault: Fault) -> None:
    """
    Each third commit has no answer.
    """
    numbers = itertools.count()

    def faults(verb: str) -> Fault:
        is_hit = verb == "commit" and next(numbers) % 3 == 2
        return fault if is_hit else Fault.NONE

    cluster = four_hosts()
    recovery = Recovery(MemoryStore(faults=faults), cluster)
    drain(recovery, "a")
    steps(recovery, 120)

    assert {} == recovery.records
    assert {"b": 2, "c": 3, "d": 4} == members(cluster)
