"""
The hosts that a controller heard.
"""

from __future__ import annotations

import pytest
from lib.values import replace

from pystore.controller.protocol.host_descriptions import HostDescription
from pystore.controller.server import hosts as module
from pystore.controller.server.hosts import Hosts

S = 1_000_000_000


def named(*names: str) -> list[HostDescription]:
    """
    Hosts of these names.
    """
    return [HostDescription(f"{one}:1") for one in names]


def test_a_host_is_alive_as_long_as_its_heartbeat_is_valid() -> None:
    """
    And says since when, alive or not.
    """
    hosts = Hosts()
    (one,) = named("a")
    assert hosts.receive(one, 10_000, S)
    assert hosts.receive(replace(one, rack="r"), 10_000, 5 * S)
    assert [replace(one, rack="r", since_ms=14_000)] == hosts.after("", 9, 15 * S)
    silent = replace(one, rack="r", is_alive=False, since_ms=2_000)
    assert [silent] == hosts.after("", 9, 17 * S)
    hosts.receive(one, 10_000, 20 * S)
    assert [replace(one, since_ms=1_000)] == hosts.after("", 9, 21 * S)


def test_hosts_are_told_in_pages_by_their_addresses() -> None:
    """
    A page begins after the last host of the one before.
    """
    hosts = Hosts()
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
    hosts = Hosts()
    a, b, c = named("a", "b", "c")
    assert hosts.receive(a, 1_000, 0)
    assert hosts.receive(b, 10_000, 0)
    assert not hosts.receive(c, 1_000, 0)
    assert hosts.receive(c, 10_000, 2 * S)
    told = [one.address for one in hosts.after("", 9, 2 * S)]
    assert ["b:1", "c:1"] == told
