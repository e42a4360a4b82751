"""
What a set of brokers needs at this moment, though nobody asks for it. Pure.

It is looked at again and again, so nothing that was missed is missed for ever: a set
that could not elect is tried until it can (R231).

Source: safety B2, C3; R59, R62, R226, R231.
"""

from __future__ import annotations

from collections.abc import Iterator

from pystore.controller.model.commands import (
    Command,
    Elect,
    EndLeases,
    SeeEnds,
    Trigger,
)
from pystore.controller.model.facts import Facts
from pystore.controller.model.state import SetState
from pystore.controller.model.views import living_leadership

__all__ = ["needs"]


def needs(
    state: SetState, facts: Facts, *, leases_are_over: bool, sees_ends: bool
) -> Iterator[Command]:
    """
    Yields the commands that a controller gives itself.

    Args:
        state: of the set.
        facts: of this moment.
        leases_are_over: no former master has one any more.
        sees_ends: it is time to remember how far brokers reached.
    """
    if leases_are_over and state.unreleased:
        yield EndLeases(state.epoch)
    if sees_ends and any(_reaches_further(state, facts)):
        yield SeeEnds()
    # Without anybody alive there is nobody to elect: who comes back goes on.
    if living_leadership(state, facts) is None and any(_alive(state, facts)):
        yield Elect(Trigger.CONTROLLER)


def _alive(state: SetState, facts: Facts) -> Iterator[bool]:
    return (True for one in state.replicas if facts.is_alive(one))


def _reaches_further(state: SetState, facts: Facts) -> Iterator[bool]:
    """
    A Java broker is judged by no end: it tells nothing of its restarts.
    """
    return (
        facts.position(one) > one.seen
        for one in state.replicas
        if one.incarnation is not None and facts.is_alive(one)
    )
