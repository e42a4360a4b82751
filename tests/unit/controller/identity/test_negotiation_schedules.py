"""
Every schedule of two new brokers and a controller: crashes on both sides at each step,
lost requests, lost answers, requests that arrive late (RMQ-R19 to RMQ-R29).

The search is exhaustive, so it needs no seed; a failing test prints the way there.
"""

from __future__ import annotations

import pytest
from lib.controller.id_allocation_model import Given, given_of
from lib.controller.negotiation_model import (
    World,
    begin,
    calm,
    every_world,
    moves,
    problem_of,
)

from pystore.controller.identity.negotiation import NegotiationStep
from pystore.rocketmq.identity_file import BrokerIdentity, TemporaryIdentity

Worlds = dict[World, World | None]


@pytest.fixture(scope="module")
def worlds() -> Worlds:
    """Every world that two new brokers can come to, and where it came from."""
    return every_world(begin(2, Given()))


def _way_to(world: World, worlds: Worlds) -> str:
    way: list[str] = []
    at: World | None = world
    while at is not None:
        steps = [side.negotiation.step.name for side in at.sides]
        stored = [side.stored for side in at.sides]
        way.append(f"{steps} {stored} given {sorted(given_of(at.controller))}")
        at = worlds[at]
    return "\n".join(reversed(way))


def test_no_id_leaks_and_none_is_used_by_two(worlds: Worlds) -> None:
    """
    In every world the store of a broker has the id that it was allocated.
    """
    bad = next((world for world in worlds if problem_of(world)), None)

    assert bad is None, f"{problem_of(bad)}\n{_way_to(bad, worlds)}"


def test_every_schedule_ends_registered_once_answers_come(worlds: Worlds) -> None:
    """
    From every world both brokers register with different ids once there are no more
    faults.
    """
    good: set[World] = set()
    for world in worlds:
        path: list[World] = []
        at = world
        while at not in good and (following := calm(at)) is not None:
            path.append(at)
            at = following
            assert len(path) < 60, f"it never ends\n{_way_to(world, worlds)}"
        if at not in good:
            assert {1, 2} == {_settled_id(side.stored) for side in at.sides}
        good.update(path, [at])


def _settled_id(stored: object) -> int:
    return stored.broker_id if isinstance(stored, BrokerIdentity) else 0


def test_the_search_reaches_the_crash_points_and_races(worlds: Worlds) -> None:
    """
    Each crash point of RMQ-R24 to RMQ-R27 is among the worlds, and so is the race of
    RMQ-R29.
    """
    seen = set()
    for world in worlds:
        first, second = world.sides
        if first.negotiation.step is NegotiationStep.READ:
            given = {code for _, code in given_of(world.controller)}
            match first.stored:
                case None:
                    seen.add("RMQ-R24")
                case TemporaryIdentity():
                    was_given = first.stored.register_check_code in given
                    seen.add("RMQ-R26" if was_given else "RMQ-R25")
                case _:
                    seen.add("RMQ-R27")
        if (first.negotiation.step, second.negotiation.step) == (
            NegotiationStep.FORGET,
            NegotiationStep.ASK,
        ):
            seen.add("taken by one that was taken from")
        ours, theirs = first.stored, second.stored
        if isinstance(ours, TemporaryIdentity) and isinstance(
            theirs, TemporaryIdentity
        ):
            same = ours.identity.broker_id == theirs.identity.broker_id
            seen.add("RMQ-R29" if same else "two ids")
        if first.late and isinstance(ours, BrokerIdentity):
            seen.add("a late request")

    assert {
        "RMQ-R24",
        "RMQ-R25",
        "RMQ-R26",
        "RMQ-R27",
        "RMQ-R29",
        "two ids",
        "a late request",
    } <= seen


def test_ids_are_given_in_turn(worlds: Worlds) -> None:
    """
    Two brokers never use more than two ids, with any faults.
    """
    given = {frozenset(who for who, _ in given_of(w.controller)) for w in worlds}

    assert {frozenset(), frozenset({1}), frozenset({1, 2})} == given


def test_the_negotiation_works_with_a_controller_that_allocates_any_id() -> None:
    """
    RocketMQ's controllers allocate any free id (RMQ-R36); the order does not matter.
    """
    worlds = every_world(begin(1, Given(takes_any_id=True)))

    assert [] == [problem for world in worlds if (problem := problem_of(world))]
    assert all(len(list(moves(world))) > 0 for world in worlds)
