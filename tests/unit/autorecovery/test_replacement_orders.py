"""
Replicas that a set lacks, and those that an operator has replaced.
"""

from __future__ import annotations

import pytest
from lib.autorecovery.replacement_auditor import Recovery
from lib.autorecovery.replacement_model import ModelCluster, key_of
from lib.autorecovery.replacement_stories import (
    LOST,
    ask,
    four_hosts,
    in_memory,
    members,
    only,
    steps,
)

from pystore.autorecovery.replacement_record import (
    ReplacementReason,
)
from pystore.autorecovery.replacement_requests import (
    replace_replica,
)
from pystore.controller.model.replica import LogStanding
from pystore.errors import InvalidError
from pystore.records.record_store import RecordStore

WIPED = ReplacementReason.WIPED


def test_a_set_with_fewer_replicas_than_wanted_gets_another_one(
    store: RecordStore,
) -> None:
    """
    Once: the new replica counts while it is filled, and nothing is cleaned.
    """
    cluster = ModelCluster(dict.fromkeys("abcde", ""))
    cluster.add_set("set", "a", "b", "c")
    recovery = Recovery(store, cluster)
    cluster.sets["cluster", "set"].wanted = 4
    for _ in range(60):
        recovery.step()

    assert {"a": 1, "b": 2, "c": 3, "d": 4} == members(cluster)
    assert ["add d set"] == cluster.asked
    assert {} == recovery.records
    assert "is done" in recovery.said[-1]


def test_a_lost_replica_and_a_missing_one_are_both_made() -> None:
    """
    Each on a host of its own.
    """
    cluster = ModelCluster(dict.fromkeys("abcdef", ""))
    cluster.add_set("set", "a", "b", "c")
    recovery = in_memory(cluster)
    cluster.sets["cluster", "set"].wanted = 4
    cluster.kill("b")
    ask(recovery, 2)
    for _ in range(120):
        recovery.step()

    assert {"a", "c", "d", "e"} == members(cluster).keys()
    assert 2 == sum(one.startswith("add ") for one in cluster.asked)


def test_a_set_of_which_fewer_are_wanted_again_gets_none() -> None:
    """
    The replica that is being made goes again.
    """
    cluster = ModelCluster(dict.fromkeys("abcd", ""))
    cluster.add_set("set", "a", "b", "c")
    recovery = in_memory(cluster)
    cluster.sets["cluster", "set"].wanted = 4
    while "add d set" not in cluster.asked:
        recovery.step()
    cluster.sets["cluster", "set"].wanted = 3
    for _ in range(60):
        recovery.step()

    assert {"a": 1, "b": 2, "c": 3} == members(cluster)
    assert {} == recovery.records
    assert {} == cluster.hosts["d"].replicas


def test_an_operator_has_a_dead_or_wiped_replica_replaced_at_once() -> None:
    """
    AR-R22: one order, without a delay; a live one is refused.
    """
    cluster = four_hosts()
    recovery = in_memory(cluster)

    def order(broker_id: int) -> bool:
        key = key_of("set", broker_id)
        return replace_replica(recovery.store, cluster, key, by="operator", now_ms=1)

    with pytest.raises(InvalidError, match="broker 2 of set is alive"):
        order(2)
    with pytest.raises(InvalidError, match="broker set set of cluster has no broker 9"):
        order(9)
    cluster.kill("b")
    assert (True, False) == (order(2), order(2))
    assert LOST is only(recovery).reason
    steps(recovery, 60)
    assert {"a": 1, "c": 3, "d": 4} == members(cluster)
    cluster.wipe("c", "set")
    assert order(3)
    cluster.start("b")
    recovery.run()
    assert {"a": 1, "c": 5, "d": 4} == members(cluster)


def test_a_store_that_is_another_one_is_kept() -> None:
    """
    A restored or copied one is not empty: its replica is made anew elsewhere.
    """
    cluster = four_hosts()
    recovery = in_memory(cluster)
    cluster.wipe("b", "set", LogStanding.COPIED)
    ask(recovery, 2, WIPED)
    recovery.run()

    assert {"a": 1, "c": 3, "d": 4} == members(cluster)
    assert (("cluster", "set"), 2) in cluster.hosts["b"].stores
