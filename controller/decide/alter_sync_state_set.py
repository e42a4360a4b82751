"""
The master asks for another SyncStateSet. Pure.

Whom the master adds has to be there, as the process that it means; who stays or goes
need not be alive (R110).

Source: formats 4.2; R101 to R112; safety B1, B2, B7.
"""

from __future__ import annotations

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


def alter_set(state: SetState, command: AlterSet, facts: Facts) -> CommandResult:
    """
    Takes the set of a master that computed it from the present one.
    """
    if not state.is_known:
        return Rejected(
            ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
            f"broker set {state.name} is not known",
        )
    members = frozenset(_named(state, command, one) for one in command.members)
    candidates = frozenset(_named(state, command, one) for one in command.candidates)
    agreed = state.agreed
    is_same = (members, candidates) == (agreed.members, agreed.candidates)
    if is_same and not command.is_fence:
        return Rejected(
            ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
            "the set is as it is wanted",
        )
    refusal = _fenced(state, command) or _unfit(state, members, candidates, facts)
    if refusal is not None:
        return refusal
    if command.master not in members:
        return Rejected(
            ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
            f"the master, broker {command.master.broker_id}, is not in the set",
        )
    events = events_of(state, SetChanged(members, candidates))
    return Accepted(events, NewSet(apply_all(state, events).agreed))


def _named(state: SetState, command: AlterSet, member: Member) -> Member:
    """
    Returns whom a Java master means: it names ids only.
    """
    if command.master.incarnation is not None or member.incarnation is not None:
        return member
    replica = state.replica(member.broker_id)
    listed = (one for one in state.agreed.members if one.broker_id == member.broker_id)
    return next(listed, replica.member if replica is not None else member)


def _fenced(state: SetState, command: AlterSet) -> Rejected | None:
    asking = command.master.broker_id
    if state.master is None or state.master != command.master:
        holder = state.master.broker_id if state.master is not None else "nobody"
        return Rejected(
            ResponseCode.CONTROLLER_INVALID_MASTER,
            f"broker {asking} is not master, but {holder}",
        )
    if command.epoch != state.epoch:
        return Rejected(
            ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
            f"epoch {command.epoch}, but {state.epoch} rules",
        )
    if command.set_epoch != state.agreed.set_epoch:
        return Rejected(
            ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
            f"version {command.set_epoch} of the set, but {state.agreed.set_epoch} is "
            "the last",
        )
    return None


def _unfit(
    state: SetState,
    members: frozenset[Member],
    candidates: frozenset[Member],
    facts: Facts,
) -> Rejected | None:
    """
    Refuses members that cannot be added, all of the first kind that is found.
    """
    ids = [one.broker_id for one in (*members, *candidates)]
    added = members - state.agreed.members
    strange = ids_of(
        frozenset(one for one in added if not _is_present(state, one))
        | (candidates - state.agreed.candidates)
    ) | {one for one in ids if ids.count(one) > 1}
    if strange:
        return _refused(
            ResponseCode.CONTROLLER_INVALID_REPLICAS,
            "not known as such a process",
            strange,
        )
    barred = frozenset(
        one.broker_id
        for one in state.replicas
        if one.member in added and (one.is_learner or one.standing.needs_operator)
    )
    if barred:
        reason = "a learner, or an operator has to re-admit it first"
        return _refused(ResponseCode.CONTROLLER_INVALID_REPLICAS, reason, barred)
    dead = frozenset(
        one.broker_id
        for one in state.replicas
        if one.member in added and not facts.is_alive(one)
    )
    if dead:
        return _refused(ResponseCode.CONTROLLER_BROKER_NOT_ALIVE, "not alive", dead)
    return None


def _is_present(state: SetState, member: Member) -> bool:
    replica = state.replica(member.broker_id)
    return replica is not None and replica.member == member


def _refused(code: ResponseCode, reason: str, broker_ids: frozenset[int]) -> Rejected:
    numbers = ", ".join(map(str, sorted(broker_ids)))
    return Rejected(code, f"brokers {numbers}: {reason}", broker_ids)
