"""
Removes brokers from a set, or the whole set. Pure.

Their ids are never used again, and the epochs of the set continue (RMQ-R254, RMQ-R255).

Source: formats 4.12; RMQ-R250 to RMQ-R256.
"""

from __future__ import annotations

from pystore.controller.decide.told_epochs import is_believed
from pystore.controller.model.commands import Clean, DeleteSet, DropUnlisted
from pystore.controller.model.decision import (
    Accepted,
    CommandResult,
    Rejected,
    events_of,
)
from pystore.controller.model.events import BrokersCleaned, EndsSeen, SetDeleted
from pystore.controller.model.facts import Facts
from pystore.controller.model.replies import Done
from pystore.controller.model.state import SetState
from pystore.remoting.codes import ResponseCode
from pystore.replicaset import ids_of

__all__ = ["clean", "delete_set", "drop_unlisted"]


def clean(state: SetState, command: Clean, facts: Facts) -> CommandResult:
    """
    Removes some brokers, or all.
    """
    if not state.is_known:
        return Rejected(
            ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA,
            f"broker set {state.name} does not exist",
        )
    there = frozenset(one.broker_id for one in state.replicas)
    gone = command.broker_ids & there if command.broker_ids else there
    if not command.with_living:
        refusal = _refusal(state, command, gone, there, facts)
        if refusal is not None:
            return refusal
    if not gone:
        return Accepted((), Done())
    # Their tombstones say what an unclean election may lose (RMQ-R73).
    ends = tuple(
        (one.broker_id, end)
        for one in state.replicas
        if one.broker_id in gone
        and (end := facts.largest_end(one)) > one.seen
        and is_believed(state, end.epoch)
    )
    seen = (EndsSeen(ends),) if ends else ()
    return Accepted(events_of(state, *seen, BrokersCleaned(gone)), Done())


def delete_set(state: SetState, _: DeleteSet, facts: Facts) -> CommandResult:
    """
    Removes everything but the next id and the epochs (RMQ-R254), if no broker is alive.
    """
    if not state.version:
        return Rejected(
            ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST,
            f"broker set {state.name} does not exist",
        )
    alive = {one.broker_id for one in state.replicas} & facts.last_heartbeats.keys()
    if alive:
        return _alive(frozenset(alive))
    is_stone = not (state.replicas or state.tombstones)
    return Accepted(() if is_stone else events_of(state, SetDeleted()), Done())


def drop_unlisted(
    state: SetState, command: DropUnlisted, facts: Facts
) -> CommandResult:
    """
    Removes the brokers of the command that no acknowledged message can depend on.
    """
    gone = frozenset(
        one.broker_id
        for one in state.replicas
        if one.broker_id in command.broker_ids
        and not one.was_listed
        and not one.is_learner
        and one.broker_id not in facts.last_heartbeats
    )
    return Accepted(events_of(state, BrokersCleaned(gone)) if gone else (), Done())


def _alive(broker_ids: frozenset[int]) -> Rejected:
    noun, verb, them = (
        ("broker", "is", "it") if len(broker_ids) == 1 else ("brokers", "are", "them")
    )
    numbers = ", ".join(map(str, sorted(broker_ids)))
    return Rejected(
        ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA,
        f"{noun} {numbers} {verb} alive: stop {them} first",
        broker_ids,
    )


def _refusal(
    state: SetState,
    command: Clean,
    gone: frozenset[int],
    there: frozenset[int],
    facts: Facts,
) -> Rejected | None:
    if not command.broker_ids and state.master is not None:
        reason = f"set {state.name} has a master: name brokers, or clean live ones too"
        return Rejected(ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, reason)
    # Also without a master: a set has none between two masters (RMQ-R250).
    alive = (command.broker_ids or there) & facts.last_heartbeats.keys()
    if alive:
        numbers = ", ".join(map(str, sorted(alive)))
        return Rejected(
            ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA,
            f"brokers {numbers} are alive: stop them, or clean live ones too",
            frozenset(alive),
        )
    members = ids_of(state.agreed.members)
    if members and members <= gone != there:
        # None of the remaining brokers could be elected (RMQ-R255).
        return Rejected(
            ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA,
            "the whole SyncStateSet would be removed, and with it the acknowledged "
            "messages: clean live brokers too if you accept that",
            gone & members,
        )
    return None
