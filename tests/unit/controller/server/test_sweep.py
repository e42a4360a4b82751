"""
The commands that a controller gives itself.
"""

from __future__ import annotations

from lib.controller.broker_set_driver import Brokers, start

from pystore.controller.model.commands import (
    Command,
    DropUnlisted,
    Elect,
    EndLeases,
    SeeEnds,
    Trigger,
)
from pystore.controller.server.sweep import SilentBrokers, due_commands

ELECTION = Elect(Trigger.CONTROLLER)


def needed(
    brokers: Brokers, *, leases_are_over: bool = False, commits_ends: bool = False
) -> list[Command]:
    """
    Returns what they need now.
    """
    return list(
        due_commands(
            brokers.state,
            brokers.facts,
            leases_are_over=leases_are_over,
            commits_ends=commits_ends,
        )
    )


def test_a_set_without_a_live_master_needs_one_if_a_broker_is_alive() -> None:
    """At each check (RMQ-R231); without a live broker it would end the mastership."""
    brokers = Brokers()
    brokers.join(1, start(1))
    brokers.join(2, start(1))
    assert [ELECTION] == needed(brokers)
    brokers.elect(1)
    assert [] == needed(brokers)
    brokers.die(1)
    assert [ELECTION] == needed(brokers)
    brokers.die(2)
    assert [] == needed(brokers)


def test_log_ends_are_committed_at_intervals_if_they_moved() -> None:
    """A commit for each heartbeat would be one too many (B2)."""
    brokers = Brokers()
    brokers.join(1, start(1))
    brokers.elect(1)
    brokers.ask(SeeEnds())
    assert [] == needed(brokers, commits_ends=True)
    brokers.reach(1, 1, 100)
    assert [] == needed(brokers)
    assert [SeeEnds()] == needed(brokers, commits_ends=True)
    brokers.ask(SeeEnds())
    assert [] == needed(brokers, commits_ends=True)


def test_leases_are_waited_for_no_longer_than_they_run() -> None:
    """Then `leader` modes begin (C3)."""
    brokers = Brokers()
    first = brokers.join(1, start(1))
    second = brokers.join(2, start(1))
    brokers.elect(1)
    brokers.admit(second)
    brokers.die(1)
    brokers.elect()
    assert {first} == brokers.state.unreleased
    assert [] == needed(brokers)
    assert [EndLeases(2)] == needed(brokers, leases_are_over=True)
    brokers.ask(EndLeases(2))
    assert [] == needed(brokers, leases_are_over=True)


def test_a_broker_that_was_never_in_the_set_is_dropped_after_its_silence() -> None:
    """Its silence begins when it is first not heard, and ends with a heartbeat."""
    brokers = Brokers()
    brokers.join(1, start(1))
    brokers.elect(1)
    brokers.join(2, start(1))
    silent, limit_ms, ms = SilentBrokers(), 1_000, 1_000_000

    def due(at_ms: int, limit_ms: int = limit_ms) -> list[DropUnlisted]:
        return list(silent.due(brokers.state, brokers.facts, limit_ms, at_ms * ms))

    assert [] == due(0)
    brokers.die(1, 2)
    assert [] == due(5_000)
    assert [] == due(5_999)
    brokers.register(2, start(2, is_clean=True))
    assert [] == due(6_500)
    brokers.die(2)
    assert [] == due(7_000)
    assert [] == due(8_000, 0)
    assert [] == due(9_000)
    assert [DropUnlisted(frozenset({2}))] == due(10_000)
