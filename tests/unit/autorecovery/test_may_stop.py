"""
Whether a host may be stopped (AR-R25).
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from lib.autorecovery.replacement_model import ModelCluster

from pystore.autorecovery.may_stop import may_stop
from pystore.errors import InvalidError

SET = ("cluster", "set")


def three() -> ModelCluster:
    """
    A set on three of four hosts.
    """
    cluster = ModelCluster(dict.fromkeys("abcd", ""))
    cluster.add_set("set", "a", "b", "c")
    return cluster


def asked(
    cluster: ModelCluster, host: str, least: int = 2
) -> tuple[bool, dict[tuple[str, str], str]]:
    """
    The answer for a host.
    """
    view, hosts = cluster.all_sets(), cluster.all_hosts()
    return may_stop(view, hosts, host, min_in_sync=least)


def test_a_host_may_be_stopped_while_enough_members_stay_in_sync() -> None:
    """
    And not below: the sets are named, with the numbers.
    """
    cluster = three()
    assert all(asked(cluster, host) == (True, {}) for host in "abcd")
    assert asked(cluster, "a", 3) == (
        False,
        {SET: "2 of its members would be in sync, 3 are needed"},
    )
    cluster.kill("c")
    cluster.tick()
    assert not asked(cluster, "a")[0]
    assert asked(cluster, "a", 1)[0]


def test_the_last_good_copy_is_not_stopped() -> None:
    """
    Another member that is filling is in sync, and has no history.
    """
    cluster = three()
    for number in (2, 3):
        cluster.sets[SET].brokers[number].is_filling = True

    assert asked(cluster, "a") == (False, {SET: "broker 1 has the only good copy"})
    assert asked(cluster, "b") == (True, {})


def test_a_replica_that_does_not_count_may_go() -> None:
    """
    A dead one, or one that is not in sync: its set does not change.
    """
    cluster = three()
    cluster.kill("c")
    cluster.sets[SET].brokers[2].is_in_sync = False
    for host in "bc":
        assert asked(cluster, host, 3) == (True, {})


def test_of_an_unreadable_set_nothing_is_known() -> None:
    """
    So its hosts stay.
    """
    cluster = three()
    view = replace(cluster.all_sets(), sets={}, damaged=(SET,))
    found = may_stop(view, cluster.all_hosts(), "a")
    assert (False, {SET: "its record is unreadable"}) == found
    with pytest.raises(InvalidError, match="no host 'x'"):
        may_stop(view, cluster.all_hosts(), "x")
