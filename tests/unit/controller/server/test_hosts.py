"""
The hosts that a controller heard, and what their records should be.
"""

from __future__ import annotations

import pytest
from lib.values import replace

from pystore.controller.protocol.host_descriptions import HostDescription, HostedReplica
from pystore.controller.server import hosts as module
from pystore.controller.server.hosts import Hosts

S = 1_000_000_000
MEMBERS = {("c", "s", 1), ("c", "s", 2), ("c", "t", 1)}


def named(*names: str) -> list[HostDescription]:
    """
    Hosts of these names.
    """
    return [HostDescription(f"{one}:1") for one in names]


def hosts_of(members: set[tuple[str, str, int]] | None = None) -> Hosts:
    """
    No hosts yet, beside sets with these brokers.
    """
    some = MEMBERS if members is None else members
    return Hosts(lambda names, broker_id: (*names, broker_id) in some)


def carrying(name: str, *replicas: tuple[str, int], state: str = "") -> HostDescription:
    """
    A host with replicas of sets of the cluster `c`.
    """
    carried = tuple(HostedReplica("c", *one, "x:1", state) for one in replicas)
    return HostDescription(f"{name}:1", "r", 100, 40, "x:2", carried)


def recorded(name: str, *replicas: tuple[str, int]) -> HostDescription:
    """
    The record of such a host.
    """
    return replace(carrying(name, *replicas), total_bytes=0, free_bytes=0)


def test_a_host_is_alive_as_long_as_its_heartbeat_is_valid() -> None:
    """
    And says since when, alive or not.
    """
    hosts = hosts_of()
    (one,) = named("a")
    assert hosts.receive(one, 10_000, S)
    assert hosts.receive(replace(one, rack="r"), 10_000, 5 * S)
    assert [replace(one, rack="r", since_ms=14_000)] == hosts.after("", 9, 15 * S)
    silent = replace(one, rack="r", is_alive=False, since_ms=2_000)
    assert [silent] == hosts.after("", 9, 17 * S)
    hosts.receive(one, 10_000, 20 * S)
    assert [replace(one, since_ms=1_000)] == hosts.after("", 9, 21 * S)
    assert {} == hosts.due


def test_hosts_are_told_in_pages_by_their_addresses() -> None:
    """
    A page begins after the last host of the one before.
    """
    hosts = hosts_of()
    for one in named("c", "a", "b"):
        hosts.receive(one, 10_000, 0)
    assert named("a", "b") == hosts.after("", 2, 0)
    assert named("c") == hosts.after("b:1", 2, 0)
    assert [] == hosts.after("c:1", 2, 0)


def test_a_silent_host_makes_room_and_a_living_one_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    So the table is bounded, and no stranger drives a host out of it.
    """
    monkeypatch.setattr(module, "HOSTS_MAX", 2)
    hosts = hosts_of()
    a, b, c = named("a", "b", "c")
    assert hosts.receive(a, 1_000, 0)
    assert hosts.receive(b, 10_000, 0)
    assert not hosts.receive(c, 1_000, 0)
    assert hosts.receive(c, 10_000, 2 * S)
    told = [one.address for one in hosts.after("", 9, 2 * S)]
    assert ["b:1", "c:1"] == told


def test_a_silent_host_with_a_record_makes_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    A set may need it, whoever tells how many hosts.
    """
    monkeypatch.setattr(module, "HOSTS_MAX", 2)
    hosts = hosts_of()
    hosts.receive(carrying("a", ("s", 1)), 1_000, 0)
    (b, c, d) = named("b", "c", "d")
    assert hosts.receive(b, 1_000, S)
    assert hosts.receive(c, 1_000, 5 * S)
    assert ["a:1", "c:1"] == [one.address for one in hosts.after("", 9, 5 * S)]
    hosts.receive(carrying("c", ("t", 1)), 1_000, 6 * S)
    assert not hosts.receive(d, 1_000, 60 * S)


def test_what_seldom_changes_is_recorded_once() -> None:
    """
    No heartbeat commits anything that only tells other bytes or roles.
    """
    hosts = hosts_of()
    one = carrying("a", ("s", 1), ("t", 1), state="slave")
    hosts.receive(one, 10_000, 0)
    record = recorded("a", ("s", 1), ("t", 1))
    assert {"a:1": record} == hosts.due
    hosts.stored({"a:1": record})
    assert {} == hosts.due
    fuller = replace(one, free_bytes=3)
    hosts.receive(fuller, 10_000, S)
    hosts.receive(replace(carrying("a", ("s", 1), ("t", 1), state="master")), 9, 2 * S)
    assert {} == hosts.due
    hosts.receive(replace(one, rack="other"), 10_000, 3 * S)
    assert {"a:1": replace(record, rack="other")} == hosts.due
    # Written too late: the record is another one by now.
    hosts.stored({"a:1": record})
    assert {"a:1": replace(record, rack="other")} == hosts.due
    hosts.receive(replace(one, replicas=()), 10_000, 4 * S)
    assert {"a:1": None} == hosts.due


def test_only_replicas_that_sets_know_are_recorded() -> None:
    """
    Anyone can tell of any replicas. A set that is known later counts half a minute
    later.
    """
    members: set[tuple[str, str, int]] = set()
    hosts = hosts_of(members)
    one = carrying("a", ("s", 1), ("s", 9))
    hosts.receive(one, 60_000, 0)
    assert {} == hosts.due
    members.add(("c", "s", 1))
    hosts.receive(one, 60_000, 29 * S)
    assert {} == hosts.due
    hosts.receive(one, 60_000, 30 * S)
    assert {"a:1": recorded("a", ("s", 1))} == hosts.due


def test_a_host_whose_address_is_too_long_for_a_key_is_not_recorded() -> None:
    """
    It is known as long as the term lasts, as a spare is.
    """
    hosts = hosts_of()
    long = "h" * 290
    assert hosts.receive(carrying(long, ("s", 1)), 1_000, 0)
    assert {} == hosts.due
    assert [f"{long}:1"] == [one.address for one in hosts.after("", 9, 0)]


def test_a_recorded_host_is_silent_until_it_is_heard() -> None:
    """
    It is what the controllers before knew; nothing is written for it again.
    """
    hosts = hosts_of()
    record = recorded("a", ("s", 1), ("t", 1))
    hosts.load([record], 5 * S)
    silent = replace(record, is_alive=False, since_ms=2_000)
    assert [silent] == hosts.after("", 9, 7 * S)
    assert silent == hosts.find("a:1", 7 * S)
    assert hosts.find("b:1", 7 * S) is None
    alive = carrying("a", ("s", 1), ("t", 1))
    hosts.receive(alive, 10_000, 8 * S)
    assert [replace(alive, since_ms=1_000)] == hosts.after("", 9, 9 * S)
    assert {} == hosts.due


def test_a_replica_is_recorded_for_one_host() -> None:
    """
    A host that comes back at another address takes its replicas with it; of two that
    live, the one that had it first keeps it.
    """
    hosts = hosts_of()
    hosts.load([recorded("a", ("s", 1), ("t", 1))], 0)
    hosts.receive(carrying("b", ("s", 1)), 10_000, S)
    assert {
        "a:1": recorded("a", ("t", 1)),
        "b:1": recorded("b", ("s", 1)),
    } == hosts.due
    (a, _) = hosts.after("", 9, S)
    assert [("t", 1)] == [(one.set_name, one.broker_id) for one in a.replicas]
    hosts.receive(carrying("c", ("s", 1), ("s", 2)), 10_000, 2 * S)
    assert recorded("c", ("s", 2)) == hosts.due["c:1"]
    hosts.receive(carrying("d", ("t", 1)), 10_000, 3 * S)
    assert hosts.due["a:1"] is None


def test_a_forgotten_host_is_not_known_until_it_is_heard_again() -> None:
    """
    Which of its replicas their sets still have is asked before.
    """
    members = {("c", "s", 1)}
    hosts = hosts_of(members)
    hosts.load([recorded("a", ("s", 1), ("t", 1))], 0)
    assert ["s"] == [one.set_name for one in hosts.needed("a:1")]
    assert [] == hosts.needed("b:1")
    members.clear()
    assert [] == hosts.needed("a:1")
    hosts.forget("a:1")
    hosts.forget("a:1")
    assert [] == hosts.after("", 9, S)
    members.add(("c", "s", 1))
    hosts.receive(carrying("a", ("s", 1)), 1_000, 2 * S)
    assert {"a:1": recorded("a", ("s", 1))} == hosts.due
