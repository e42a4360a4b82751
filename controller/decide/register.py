"""
The registration of a broker process. Pure.

A new process never resumes a mastership (B1, RMQ-R152). If the recorded master
registers from another process, or is a Java broker, which registers only at its start,
its mastership ends. It has to be elected again in a new epoch.

Source: formats 4.4; RMQ-R38 to RMQ-R42, RMQ-R44; B1, B2.
"""

from __future__ import annotations

from dataclasses import replace

from pystore.controller.decide.eligibility import standing_of
from pystore.controller.model.apply import apply_all
from pystore.controller.model.commands import Register
from pystore.controller.model.decision import (
    Accepted,
    CommandResult,
    Rejected,
    events_of,
)
from pystore.controller.model.events import BrokerRegistered, Change, MastershipEnded
from pystore.controller.model.facts import Facts
from pystore.controller.model.log_end import NOWHERE, LogEnd
from pystore.controller.model.replica import LogStanding, RegisteredBroker
from pystore.controller.model.replies import RegistrationReply
from pystore.controller.model.state import SetState
from pystore.controller.model.views import living_leadership
from pystore.remoting.codes import ResponseCode
from pystore.replicaset import ids_of

__all__ = ["register"]


def register(state: SetState, command: Register, facts: Facts) -> CommandResult:
    """
    Records the process and its address, and returns the master.
    """
    old = state.replica(command.broker_id)
    if old is None:
        return _unknown(state, command.broker_id)
    registered = _registered(state, old, command, facts)
    # A process with another store must not replace the process with the right one.
    is_other = registered.standing.needs_operator
    is_same = registered.incarnation == old.incarnation is not None
    may_be_alive = facts.is_alive(old) or not facts.may_replace
    if is_other and not is_same and old.incarnation and may_be_alive:
        return Rejected(
            ResponseCode.CONTROLLER_BROKER_ID_INVALID,
            f"broker id {old.broker_id}: another process with another store is alive, "
            "or may be; give this broker an id of its own",
            frozenset({old.broker_id}),
        )
    changes: list[Change] = []
    if state.master == old.member and not is_same:
        changes.append(MastershipEnded(is_released=not is_other))
    if _differs(old, registered):
        changes.append(registered)
    events = events_of(state, *changes)
    after = apply_all(state, events)
    return Accepted(
        events,
        RegistrationReply(
            living_leadership(after, facts), after.agreed, registered.standing
        ),
    )


def _registered(
    state: SetState, old: RegisteredBroker, command: Register, facts: Facts
) -> BrokerRegistered:
    seen, told = max(old.seen, old.recovered), command.recovery
    last_heartbeat = facts.last_heartbeat(old)
    if last_heartbeat is not None:
        seen = max(seen, last_heartbeat.position)
    is_listed = old.broker_id in ids_of(state.listed)
    standing = standing_of(old, told, seen, is_listed=is_listed)
    if told is None:
        return _of_java(old, command.address, standing, seen)
    if told.incarnation == old.incarnation:
        # The same process registers again, perhaps from another address.
        told = replace(told, boot_id=old.boot_id, position=old.recovered)
        seen = old.seen
    return BrokerRegistered(
        old.broker_id,
        command.address,
        told.incarnation,
        told.boot_id,
        standing,
        told.position,
        seen,
    )


def _of_java(
    old: RegisteredBroker, address: str, standing: LogStanding, seen: LogEnd
) -> BrokerRegistered:
    if old.incarnation is None:
        seen = old.seen
    return BrokerRegistered(old.broker_id, address, None, "", standing, NOWHERE, seen)


def _differs(old: RegisteredBroker, registered: BrokerRegistered) -> bool:
    return old != replace(
        old,
        address=registered.address,
        incarnation=registered.incarnation,
        boot_id=registered.boot_id,
        standing=registered.standing,
        recovered=registered.recovered,
        seen=registered.seen,
    )


def _unknown(state: SetState, broker_id: int) -> Rejected:
    if not state.is_known:
        reason = f"broker set {state.name} does not exist; apply for a broker id first"
    elif state.tombstone(broker_id) is not None:
        reason = (
            f"broker {broker_id} of set {state.name} was cleaned; re-admit it, or "
            "delete its identity file and apply for another id"
        )
    else:
        reason = f"broker id {broker_id} of set {state.name} was never allocated"
    return Rejected(
        ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
        reason,
        frozenset({broker_id}),
    )
