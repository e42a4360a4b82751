"""
The registration of a broker process. Pure.

A new process never resumes a mastership (B1, RMQ-R152). If the recorded master
registers from another process, or is a Java broker, which registers only at its start,
its mastership ends. It has to be elected again in a new epoch.

While the process that has the id is heard, no other process gets it (B17). A closed
connection alone proves no end, but together with a registration from the same address
it does: only one process listens there.

Source: formats 4.4; RMQ-R38 to RMQ-R42, RMQ-R44; B1, B2, B17.
"""

from __future__ import annotations

from dataclasses import replace

from pystore.controller.decide.eligibility import is_return, standing_of
from pystore.controller.decide.told_epochs import EPOCH_JUMP_MAX, is_believed
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
from pystore.controller.model.log_end import NOWHERE
from pystore.controller.model.replica import RegisteredBroker
from pystore.controller.model.replies import RegistrationReply
from pystore.controller.model.state import SetState
from pystore.controller.model.views import living_leadership
from pystore.errors import InvalidError
from pystore.net.address import parse_address
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
    problem = _problem_of_address(command.address)
    if problem:
        return Rejected(
            ResponseCode.CONTROLLER_INVALID_REQUEST,
            f"broker {old.broker_id} cannot be reached: {problem}: correct brokerIP1 "
            "and listenPort",
            frozenset({old.broker_id}),
        )
    epoch = -1 if command.recovery is None else command.recovery.position.epoch
    if not is_believed(state, epoch):
        return Rejected(
            ResponseCode.CONTROLLER_INVALID_REQUEST,
            f"broker {old.broker_id} has a log of epoch {epoch}, more than "
            f"{EPOCH_JUMP_MAX} above the {state.epoch} of the record: rebuild the set "
            "(`pystore admin rebuildSet`), or give this broker an empty store",
            frozenset({old.broker_id}),
        )
    registered = _registered(state, old, command, facts)
    is_same = registered.incarnation == old.incarnation is not None
    if not is_same and _is_heard(old, command, facts):
        return _taken(old, f"its process at {old.address} is alive: this one waits")
    # A process with another store must not replace the process with the right one.
    is_other = registered.standing.needs_operator
    may_be_alive = not facts.may_replace and not facts.has_ended(old)
    if is_other and not is_same and old.incarnation and may_be_alive:
        return _taken(old, "another process with another store may be alive: wait")
    changes: list[Change] = []
    if state.master == old.member and not is_same:
        is_released = not is_other and command.address == old.address
        changes.append(MastershipEnded(is_released=is_released))
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


def _problem_of_address(address: str) -> str:
    try:
        parse_address(address)
    except InvalidError as error:
        # The caller makes it a refusal.
        return str(error)
    return ""


def _is_heard(old: RegisteredBroker, command: Register, facts: Facts) -> bool:
    """
    Returns whether the process that has the id is heard, and is not the one that
    registers.
    """
    heard = facts.last_heartbeat(old)
    if heard is None or not old.address:
        # Of a rebuilt record, which knows no process.
        return False
    if command.address != old.address:
        return True
    # A Java broker names no process: that at its address is the same one, or the next.
    is_java = heard.incarnation is None and command.recovery is None
    return heard.is_connected and not is_java


def _taken(old: RegisteredBroker, reason: str) -> Rejected:
    return Rejected(
        ResponseCode.CONTROLLER_BROKER_ID_INVALID,
        f"broker id {old.broker_id}: {reason}; a copy of a store needs an id of its "
        "own: remove brokerIdentity and its log",
        frozenset({old.broker_id}),
    )


def _registered(
    state: SetState, old: RegisteredBroker, command: Register, facts: Facts
) -> BrokerRegistered:
    seen, told = facts.largest_end(old), command.recovery
    is_listed = old.broker_id in ids_of(state.listed)
    standing = standing_of(old, told, seen, is_listed=is_listed)
    if told is None:
        return BrokerRegistered(
            old.broker_id,
            command.address,
            None,
            "",
            standing,
            NOWHERE,
            seen,
            command.ha_address,
        )
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
        command.ha_address,
        told.begin,
        is_return(old, told),
    )


def _differs(old: RegisteredBroker, registered: BrokerRegistered) -> bool:
    return old != replace(
        old,
        address=registered.address,
        incarnation=registered.incarnation,
        boot_id=registered.boot_id,
        standing=registered.standing,
        recovered=registered.recovered,
        seen=registered.seen,
        ha_address=registered.ha_address,
        begin=registered.begin,
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
