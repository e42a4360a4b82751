"""
Replicas of one set on one rack are told, and the sets that have too many.
"""

from __future__ import annotations

from dataclasses import replace

from lib.autorecovery.replacement_model import SETTINGS, ModelCluster, key_of

from pystore.autorecovery.placement import (
    MisplacedReplica,
    is_misplaced,
    misplaced,
    misplaced_lines,
    overreplicated,
    place_for,
)
from pystore.autorecovery.replacement_record import (
    Replacement,
    ReplacementKey,
    ReplacementPhase,
    ReplacementReason,
)
from pystore.autorecovery.replacement_target import HostFacts

MOVE = Replacement(ReplacementReason.MISPLACED, 1)


def cluster_of(racks: dict[str, str]) -> ModelCluster:
    """
    A set on the hosts a, b, c of these.
    """
    cluster = ModelCluster(racks)
    cluster.add_set("set", "a", "b", "c")
    return cluster


def facts_of(
    cluster: ModelCluster,
    replacements: dict[ReplacementKey, Replacement] | None = None,
    *drains: str,
) -> HostFacts:
    """
    What is known of a cluster.
    """
    return HostFacts(
        cluster.all_sets().sets,
        cluster.all_hosts(),
        replacements or {},
        frozenset(drains),
        SETTINGS,
    )


def told(cluster: ModelCluster, *drains: str) -> list[MisplacedReplica]:
    """
    What is misplaced.
    """
    return list(misplaced(facts_of(cluster, None, *drains)))


def test_two_replicas_on_one_rack_are_misplaced_while_another_rack_has_room() -> None:
    """
    BK-A121: the youngest that is no master would be moved.
    """
    cluster = cluster_of({"a": "r1", "b": "r1", "c": "r2", "d": "r3", "e": "r2"})
    found = MisplacedReplica(key_of("set", 2), "b", "r1", (1,), is_movable=True)
    assert [found] == told(cluster)
    assert "d" == place_for(found.key, facts_of(cluster)).host
    cluster.sets["cluster", "set"].master_id = 2
    assert [key_of("set", 1)] == [one.key for one in told(cluster)]

    assert [] == told(cluster, "d")
    cluster.hosts["d"].used_percent = SETTINGS.disk_high_percent
    assert [] == told(cluster)
    cluster.hosts["d"].used_percent = -1
    assert [] == told(cluster)
    cluster.hosts["d"].used_percent = 10
    assert [found.rack] == [one.rack for one in told(cluster)]
    cluster.kill("d")
    assert [] == told(cluster)


def test_without_another_rack_or_with_unknown_racks_nothing_is_misplaced() -> None:
    """
    A label that is missing is no rack.
    """
    assert [] == told(cluster_of({"a": "r1", "b": "r1", "c": "r2", "d": "r2"}))
    assert [] == told(cluster_of({"a": "", "b": "", "c": "r2", "d": "r3"}))
    assert [] == told(cluster_of({"a": "r1", "b": "r1", "c": "r2", "d": ""}))
    assert [] == told(cluster_of({"a": "r1", "b": "r2", "c": "r3", "d": "r4"}))


def test_a_set_that_changes_is_looked_at_later_and_damage_comes_first() -> None:
    """
    BK-A122.
    """
    cluster = cluster_of({"a": "r1", "b": "r1", "c": "r2", "d": "r3"})
    key = key_of("set", 3)
    running = replace(MOVE, phase=ReplacementPhase.FILLING, target="d")
    assert [] == list(misplaced(facts_of(cluster, {key: running})))
    ended = replace(MOVE, phase=ReplacementPhase.CLEARING)
    assert [2] == [
        one.key.broker_id for one in misplaced(facts_of(cluster, {key: ended}))
    ]
    cluster.kill("c")
    (one,) = told(cluster)
    assert not one.is_movable
    assert [
        "on host b: rack r1 has broker 1 of the set, too",
        "it is moved once all replicas of the set are whole",
    ] == list(misplaced_lines(one, wants_move=True))


def test_a_move_is_for_a_rack_that_the_set_has_not() -> None:
    """
    Another host of a rack that has a replica is no better, nor is one without a label.
    """
    cluster = cluster_of(
        {"a": "r1", "b": "r1", "c": "r2", "d": "r2", "e": "", "f": "r1"}
    )
    found = place_for(key_of("set", 2), facts_of(cluster))
    assert "" == found.host
    assert "rack 'r2' has a replica of the set" == found.refused["d"]
    assert "its rack is not known" == found.refused["e"]
    assert "rack 'r1' has a replica of the set" == found.refused["f"]


def test_a_replica_that_moves_is_misplaced_until_its_neighbour_goes() -> None:
    """
    The new one does not count.
    """
    cluster = cluster_of({"a": "r1", "b": "r1", "c": "r2", "d": "r1"})
    key, move = key_of("set", 2), replace(MOVE, target="d")
    assert is_misplaced(key, move, facts_of(cluster))
    assert not is_misplaced(key_of("set", 3), move, facts_of(cluster))
    assert not is_misplaced(key_of("set", 9), move, facts_of(cluster))
    cluster.hosts["d"].replicas["cluster", "set"] = 4
    del cluster.hosts["a"].replicas["cluster", "set"]
    assert not is_misplaced(key, move, facts_of(cluster))


def test_a_set_with_more_replicas_than_wanted_is_told() -> None:
    """
    Learners do not count, nor does a set whose replica is being replaced.
    """
    cluster = cluster_of(dict.fromkeys("abcd", ""))
    one = cluster.sets["cluster", "set"]
    assert [] == list(overreplicated(facts_of(cluster)))
    one.wanted = 2
    assert [("cluster", "set")] == list(overreplicated(facts_of(cluster)))
    assert [] == list(overreplicated(facts_of(cluster, {key_of("set", 1): MOVE})))
    one.brokers[3].is_learner = True
    assert [] == list(overreplicated(facts_of(cluster)))
