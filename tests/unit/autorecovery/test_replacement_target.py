"""
Where a new replica goes, and why not elsewhere.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lib.autorecovery.replacement_model import SETTINGS, ModelCluster, key_of

from pystore.autorecovery.host_peers import CarriedReplica, RecoveryHost
from pystore.autorecovery.replacement_record import (
    LeftReplica,
    Replacement,
    ReplacementKey,
    ReplacementPhase,
    ReplacementReason,
)
from pystore.autorecovery.replacement_target import (
    HostChoice,
    HostFacts,
    choose_host,
    owner_of,
)
from pystore.controller.model.log_end import LogBegin, LogEnd
from pystore.controller.protocol.set_descriptions import (
    BrokerDescription,
    SetDescription,
)

LOST = Replacement(ReplacementReason.LOST, 1)
KEY = key_of("set", 2)


def cluster_of(racks: dict[str, str]) -> ModelCluster:
    """
    A set on the hosts a, b, c of these.
    """
    cluster = ModelCluster(racks)
    cluster.add_set("set", "a", "b", "c")
    return cluster


def chosen(
    cluster: ModelCluster,
    one: Replacement = LOST,
    others: dict[ReplacementKey, Replacement] | None = None,
    drains: frozenset[str] = frozenset(),
    *,
    is_limited: bool = True,
) -> HostChoice:
    """
    The choice.
    """
    facts = HostFacts(
        cluster.all_sets().sets, cluster.all_hosts(), others or {}, drains, SETTINGS
    )
    return choose_host(KEY, one, facts, is_limited=is_limited)


def test_another_rack_comes_before_less_load() -> None:
    """
    And where there is none, any host is better than none.
    """
    racks = {"a": "r1", "b": "r2", "c": "r3", "d": "r1", "e": "r2", "f": "r4"}
    cluster = cluster_of(racks)
    cluster.hosts["e"].used_percent = cluster.hosts["f"].used_percent = 80
    # The rack of the lost one is free again.
    assert "e" == chosen(cluster).host
    cluster.hosts["e"].is_alive = False
    found = chosen(cluster)
    assert "f" == found.host
    assert "rack 'r1' has a replica of the set" == found.refused["d"]
    cluster.hosts["f"].is_alive = False
    assert "d" == chosen(cluster).host


def test_each_host_has_its_reason() -> None:
    """
    AR-R18.
    """
    cluster = cluster_of(dict.fromkeys("abcdefghij", ""))
    cluster.hosts["d"].is_alive = False
    cluster.hosts["f"].used_percent = 90
    cluster.hosts["g"].used_percent = -1
    cluster.hosts["h"].used_percent, cluster.hosts["h"].free = 80, 2_000
    other = replace(LOST, phase=ReplacementPhase.PLANNED, target="i")
    failed = replace(LOST, left=(LeftReplica("j", 7),))
    others = {key_of("set", 3): other, KEY: failed}
    found = chosen(cluster, failed, others, frozenset({"e"}))

    assert {
        "a": "it has a replica of the set",
        "b": "it has a replica of the set",
        "c": "it has a replica of the set",
        "d": "it is not alive",
        "e": "it is emptied",
        "f": "its disk is 90 % full, 85 % is the most",
        "g": "its disk level is unknown",
        "h": "the set needs 1.10 kB, 2.00 kB is free, and 85 % full is the most",
        "i": "a replacement of broker 3 of the set uses it",
        "j": "it had a replica that failed",
    } == found.refused
    assert ("", False) == (found.host, found.waits)
    assert found.text.startswith("a: it has a replica of the set; b: ")
    assert "there is no host" == chosen(ModelCluster({})).text


def test_the_least_loaded_host_is_chosen() -> None:
    """
    By what it is getting, then by its disk, then by its replicas.
    """
    cluster = cluster_of(dict.fromkeys("abcdef", ""))
    cluster.hosts["d"].used_percent = 11
    cluster.add_set("other", "e", "a", "b")
    assert "f" == chosen(cluster).host
    filling = replace(LOST, phase=ReplacementPhase.FILLING, target="f")
    others = {key_of("other", 1): filling}
    assert "e" == chosen(cluster, others=others).host
    failed = replace(LOST, failed=("e",))
    assert "d" == chosen(cluster, failed, others).host


def test_a_host_takes_only_so_many_at_once() -> None:
    """
    A replacement waits for its turn; a plan does not.
    """
    cluster = cluster_of(dict.fromkeys("abcd", ""))
    filling = replace(LOST, phase=ReplacementPhase.FILLING, target="d")
    others = {key_of(f"other-{n}", 1): filling for n in range(2)}
    found = chosen(cluster, others=others)

    assert ("", True) == (found.host, found.waits)
    assert "it takes 2 replacements at once" == found.refused["d"]
    assert "d" == chosen(cluster, others=others, is_limited=False).host


@pytest.mark.parametrize(("used", "host"), [(10, "b"), (90, "d")])
def test_a_wiped_replica_stays_where_it_was_if_it_can(used: int, host: str) -> None:
    """
    Its disk was replaced, its host is well.
    """
    cluster = cluster_of(dict.fromkeys("abcd", ""))
    cluster.hosts["b"].used_percent = used
    cluster.wipe("b", "set")
    assert host == chosen(cluster, replace(LOST, reason=ReplacementReason.WIPED)).host


def test_a_new_replica_belongs_to_its_replacement() -> None:
    """
    By its id, or by its host as long as that is not known.
    """
    cluster = cluster_of(dict.fromkeys("abcd", ""))
    cluster.hosts["d"].replicas["cluster", "set"] = 4
    new = key_of("set", 4)
    for one in (
        replace(LOST, new_id=4),
        replace(LOST, target="d"),
        replace(LOST, left=(LeftReplica("d"),)),
        replace(LOST, left=(LeftReplica("x", 4),)),
    ):
        assert KEY == owner_of(new, {KEY: one}, cluster.all_hosts())
    for one in (LOST, replace(LOST, left=(LeftReplica("d", 5),))):
        assert owner_of(new, {KEY: one}, cluster.all_hosts()) is None
    assert owner_of(KEY, {KEY: LOST}, cluster.all_hosts()) is None


def test_a_host_whose_rack_is_not_known_comes_between() -> None:
    """
    After another rack, before the rack of a replica; without racks all are equal.
    """
    racks = {"a": "r1", "b": "r2", "c": "r3", "d": "", "e": "r1", "f": "r4"}
    cluster = cluster_of(racks)
    cluster.hosts["d"].used_percent = 1
    found = chosen(cluster)
    assert "f" == found.host
    assert "its rack is not known" == found.refused["d"]
    cluster.hosts["f"].is_alive = False
    assert "d" == chosen(cluster).host
    cluster.hosts["d"].is_alive = False
    assert "e" == chosen(cluster).host


GB = 10**9


@st.composite
def some_hosts(draw: st.DrawFn) -> dict[str, RecoveryHost]:
    """
    Hosts with any disks, racks and replicas; those of the set `s` are of brokers that
    are not replaced.
    """
    found = {}
    for number in range(draw(st.integers(0, 6))):
        free, used = draw(st.integers(0, 200)), draw(st.integers(-1, 100))
        sets = sorted(draw(st.sets(st.sampled_from("stuv"))))
        name = f"h{number}:1"
        found[name] = RecoveryHost(
            name,
            draw(st.sampled_from(["", "r1", "r2"])),
            free * GB if used < 100 else 0,
            used,
            tuple(CarriedReplica("c", one, 10 + number) for one in sets),
            draw(st.booleans()),
        )
    return found


def sized(name: str, size: int) -> SetDescription:
    """
    A set with so many GB.
    """
    broker = BrokerDescription(1, begin=LogBegin(0), end=LogEnd(1, size * GB))
    return SetDescription("c", name, brokers=(broker,))


def is_full(host: RecoveryHost, more: int) -> bool:
    """
    Whether so many bytes are too many for its disk.
    """
    size = host.free_bytes * 100 // (100 - host.disk_used_percent)
    most = SETTINGS.disk_high_percent
    return (host.free_bytes - more) * 100 < size * (100 - most)


@given(some_hosts(), st.integers(0, 100), st.sets(st.integers(0, 5)))
def test_a_target_is_always_allowed_and_none_is_better(
    hosts: dict[str, RecoveryHost], size: int, drained: set[int]
) -> None:
    """
    Whatever hosts there are; and the order in which they are told does not count.
    """
    key = ReplacementKey("c", "s", 1)
    drains = frozenset(f"h{n}:1" for n in drained)
    sets = {key.names: sized("s", size)}
    facts = HostFacts(sets, hosts, {}, drains, SETTINGS)
    choice = choose_host(key, LOST, facts)
    other_order = replace(facts, hosts=dict(reversed(hosts.items())))
    assert choice == choose_host(key, LOST, other_order)
    assert hosts.keys() == choice.refused.keys() | ({choice.host} - {""})
    able = [
        one
        for one in hosts.values()
        if one.is_alive and one.name not in drains and one.replica_of("c", "s") is None
        if 0 <= one.disk_used_percent < 85 and not is_full(one, size * GB * 11 // 10)
    ]
    assert bool(able) == bool(choice.host)
    if able:
        target = hosts[choice.host]
        assert target in able
        racks = {it.rack for it in hosts.values() if it.replica_of("c", "s")} - {""}
        if target.rack in racks:
            assert all(one.rack in racks for one in able)
        elif racks and not target.rack:
            assert all(one.rack in racks | {""} for one in able)


@given(some_hosts(), st.integers(1, 40))
def test_sets_that_are_placed_one_after_another_fit_all(
    hosts: dict[str, RecoveryHost], size: int
) -> None:
    """
    Each choice is counted as promised for the next one: no disk is promised twice.
    """
    keys = [ReplacementKey("c", f"n{number}", 1) for number in range(12)]
    sets = {key.names: sized(key.set_name, size) for key in keys}
    running: dict[ReplacementKey, Replacement] = {}
    for key in keys:
        facts = HostFacts(sets, hosts, running, frozenset(), SETTINGS)
        host = choose_host(key, LOST, facts, is_limited=False).host
        if not host:
            break
        planned = replace(LOST, phase=ReplacementPhase.PLANNED, target=host)
        running[key] = planned
    for one in hosts.values():
        count = sum(it.target == one.name for it in running.values())
        assert not count or not is_full(one, count * (size * GB * 11 // 10))
