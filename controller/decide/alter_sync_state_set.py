"""
The master requests another SyncStateSet. Pure.

A broker that the master adds has to be alive, as the process that the request names.
Brokers that stay or leave need not be alive (RMQ-R110). One that the master adds as
filling has to tell so in its heartbeats: elections go by them (B11).

Source: formats 4.2; RMQ-R101 to RMQ-R112; B1, B2, B7, B11.
"""

from __future__ import annotations

from collections import Counter

from pystore.controller.model.apply import apply_all
from pystore.controller.model.commands import AlterSet
from pystore.controller.model.decision import (
    Accepted,
    CommandResult,
    Rejected,
    events_of,
)
from pystore.controller.model.events import SetChanged
from pystore.controller.model.facts import Facts
from pystore.controller.model.replies import NewSet
from pystore.controller.model.state import SetState
from pystore.remoting.codes import ResponseCode
from pystore.replicaset import Member, ids_of

__all__ = ["alter_set"]

_NAMED_MAX = 100
"""Brokers that a refusal names: a reason is stored and sent, and stays short."""


def alter_set(state: SetState, command: AlterSet, facts: Facts) -> CommandResult:
    """
    Accepts a set that the master computed from the present one.
    """
    if not state.is_known:
        return Rejected(
            ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
            f"broker set {state.name} does not exist",
        )
    if len(command.members) + len(command.candidates) > len(state.replicas):
        # Before any work for each of them: a request may name millions.
        return _fenced(state, command) or _too_many(state, command)
    members = frozenset(_named(state, command, one) for one in command.members)
    candidates = frozenset(_named(state, command, one) for one in command.candidates)
    agreed = state.agreed
    is_same = (members, candidates) == (agreed.members, agreed.candidates)
    if is_same and not command.is_fence:
        return Rejected(
            ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
            "the SyncStateSet has these members already",
        )
    refusal = (
        _fenced(state, command)
        or _unfit(state, members, candidates, facts)
        or _untold(state, command, members, facts)
    )
    if refusal is not None:
        return refusal
    if command.master not in members:
        return Rejected(
            ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
            f"the new set lacks the master, broker {command.master.broker_id}",
        )
    events = events_of(state, SetChanged(members, candidates))
    return Accepted(events, NewSet(apply_all(state, events).agreed))


def _too_many(state: SetState, command: AlterSet) -> Rejected:
    ids = ids_of(command.members | command.candidates)
    strangers = ids - {one.broker_id for one in state.replicas}
    return _refused(
        ResponseCode.CONTROLLER_INVALID_REPLICAS,
        f"not registered as this process; the set has {len(state.replicas)} brokers",
        strangers or ids,
    )


def _named(state: SetState, command: AlterSet, member: Member) -> Member:
    """
    Returns the member with its incarnation: a Java master names ids only.
    """
    if command.master.incarnation is not None or member.incarnation is not None:
        return member
    replica = state.replica(member.broker_id)
    listed = (one for one in state.agreed.members if one.broker_id == member.broker_id)
    return next(listed, replica.member if replica is not None else member)


def _fenced(state: SetState, command: AlterSet) -> Rejected | None:
    requester = command.master.broker_id
    if state.master is None or state.master != command.master:
        if state.master is None:
            actual = "the set has no master"
        elif state.master.broker_id == requester:
            actual = "another process of it is"
        else:
            actual = f"the master is broker {state.master.broker_id}"
        return Rejected(
            ResponseCode.CONTROLLER_INVALID_MASTER,
            f"broker {requester} is not the master: {actual}",
        )
    if command.epoch != state.epoch:
        return Rejected(
            ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
            f"stale epoch {command.epoch}: the set is at epoch {state.epoch}",
        )
    if command.set_epoch != state.agreed.set_epoch:
        return Rejected(
            ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
            f"stale SyncStateSet epoch {command.set_epoch}: the set is at SyncStateSet "
            f"epoch {state.agreed.set_epoch}",
        )
    return None


def _unfit(
    state: SetState,
    members: frozenset[Member],
    candidates: frozenset[Member],
    facts: Facts,
) -> Rejected | None:
    """
    Refuses members that cannot be added; the refusal names all members with the first
    reason found.
    """
    ids = Counter(one.broker_id for one in (*members, *candidates))
    added = members - state.agreed.members
    unknown = ids_of(
        frozenset(one for one in added if not _is_present(state, one))
        | (candidates - state.agreed.candidates)
    ) | {one for one, count in ids.items() if count > 1}
    if unknown:
        return _refused(
            ResponseCode.CONTROLLER_INVALID_REPLICAS,
            "not registered as this process",
            unknown,
        )
    barred = frozenset(
        one.broker_id
        for one in state.replicas
        if one.member in added and (one.is_learner or one.standing.needs_operator)
    )
    if barred:
        reason = "it is a learner, or an operator has to re-admit it first"
        return _refused(ResponseCode.CONTROLLER_INVALID_REPLICAS, reason, barred)
    dead = frozenset(
        one.broker_id
        for one in state.replicas
        if one.member in added and not facts.is_alive(one)
    )
    if dead:
        return _refused(ResponseCode.CONTROLLER_BROKER_NOT_ALIVE, "not alive", dead)
    return None


def _untold(
    state: SetState, command: AlterSet, members: frozenset[Member], facts: Facts
) -> Rejected | None:
    """
    Refuses members that are filling, and of which no heartbeat told it yet: an election
    before the next one would take them for whole (B11).
    """
    added = members - state.agreed.members
    untold = frozenset(
        one.broker_id
        for one in state.replicas
        if one.member in added
        and one.broker_id in command.filling
        and not facts.begin(one).is_filling
    )
    if not untold:
        return None
    reason = "its heartbeats have to tell first that it is filling"
    return _refused(ResponseCode.CONTROLLER_BROKER_NOT_ALIVE, reason, untold)


def _is_present(state: SetState, member: Member) -> bool:
    replica = state.replica(member.broker_id)
    return replica is not None and replica.member == member


def _refused(code: ResponseCode, reason: str, broker_ids: frozenset[int]) -> Rejected:
    named = sorted(broker_ids)[:_NAMED_MAX]
    numbers = ", ".join(map(str, named))
    more = len(broker_ids) - len(named)
    others = f" and {more} more" if more else ""
    return Rejected(code, f"brokers {numbers}{others}: {reason}", frozenset(named))
