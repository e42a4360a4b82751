"""
The commands that a controller gives itself for a set of brokers. Pure.

Each set is checked repeatedly, so a missed event does no lasting harm: a set without an
electable broker is tried until it has one (RMQ-R231).

Source: B2, C3; RMQ-R59, RMQ-R62, RMQ-R226, RMQ-R231.
"""

from __future__ import annotations

from collections.abc import Iterator

from pystore.controller.decide.told_epochs import is_believed
from pystore.controller.model.commands import (
    Command,
    DropUnlisted,
    Elect,
    EndLeases,
    SeeEnds,
    Trigger,
)
from pystore.controller.model.facts import Facts
from pystore.controller.model.state import SetKey, SetState
from pystore.controller.model.views import living_leadership

__all__ = ["SilentBrokers", "due_commands"]

_MS = 1_000_000


def due_commands(
    state: SetState, facts: Facts, *, leases_are_over: bool, commits_ends: bool
) -> Iterator[Command]:
    """
    Yields the commands that are due.

    Args:
        state: of the set.
        facts: at this moment.
        leases_are_over: the leases of all former masters have expired.
        commits_ends: whether log ends are to be committed now.
    """
    if leases_are_over and state.unreleased:
        yield EndLeases(state.epoch)
    if commits_ends and any(_reaches_further(state, facts)):
        yield SeeEnds()
    # No broker is alive, so none can be elected: a returning master continues.
    if living_leadership(state, facts) is None and any(_alive(state, facts)):
        yield Elect(Trigger.CONTROLLER)


class SilentBrokers:
    """
    How long the brokers are silent that were never in a SyncStateSet, in one term: each
    start of a pod without a disk of its own takes an id. One thread.
    """

    def __init__(self) -> None:
        self._since_ns: dict[tuple[SetKey, int], int] = {}

    def due(
        self, state: SetState, facts: Facts, limit_ms: int, now_ns: int
    ) -> Iterator[DropUnlisted]:
        """
        Yields the command that removes those of a set that are silent for too long.

        Args:
            state: of the set.
            facts: at this moment.
            limit_ms: of the silence; 0: none.
            now_ns: boot time.
        """
        due = set()
        for one in state.replicas:
            key = state.key, one.broker_id
            is_heard = one.broker_id in facts.last_heartbeats
            if one.was_listed or one.is_learner or is_heard or not limit_ms:
                self._since_ns.pop(key, None)
            elif now_ns - self._since_ns.setdefault(key, now_ns) >= limit_ms * _MS:
                del self._since_ns[key]
                due.add(one.broker_id)
        if due:
            yield DropUnlisted(frozenset(due))


def _alive(state: SetState, facts: Facts) -> Iterator[bool]:
    return (True for one in state.replicas if facts.is_alive(one))


def _reaches_further(state: SetState, facts: Facts) -> Iterator[bool]:
    """
    Yields true for each broker whose log grew. Java brokers do not count: they report
    no restarts, so their log ends are never compared.
    """
    return (
        facts.position(one) > one.seen and is_believed(state, facts.position(one).epoch)
        for one in state.replicas
        if one.incarnation is not None and facts.is_alive(one)
    )
