"""
The allocation of broker ids. Pure.

The next id goes to the broker that applies for it first, under a check code that the
broker drew and stored before. A broker that applies again with the same code is the
same broker, whose answer was lost (RMQ-R26, RMQ-R28, RMQ-R29). Only the next id is ever
allocated, so none is used twice (RMQ-R36, RMQ-R255).

Source: formats 4.13; RMQ-R30 to RMQ-R36.
"""

from __future__ import annotations

from pystore.controller.model.commands import ApplyId, GetNextId
from pystore.controller.model.decision import (
    Accepted,
    CommandResult,
    Rejected,
    events_of,
)
from pystore.controller.model.events import IdApplied
from pystore.controller.model.facts import Facts
from pystore.controller.model.limits import BROKERS_MAX
from pystore.controller.model.replies import Applied, NextBrokerId
from pystore.controller.model.state import SetState
from pystore.remoting.codes import ResponseCode

__all__ = ["apply_id", "next_id"]


def next_id(state: SetState, _: GetNextId, facts: Facts) -> CommandResult:
    """
    Returns the id to apply for.
    """
    refusal = _of_unknown_ids(state, facts)
    if refusal is not None:
        return refusal
    return Accepted((), NextBrokerId(state.next_id))


def apply_id(state: SetState, command: ApplyId, facts: Facts) -> CommandResult:
    """
    Allocates the next id, or confirms an earlier allocation to the same broker.
    """
    broker_id, code = command.broker_id, command.check_code
    owner = state.replica(broker_id)
    if owner is not None and owner.check_code == code:
        return Accepted((), Applied(broker_id))
    refusal = _of_unknown_ids(state, facts)
    if refusal is not None:
        return refusal
    if owner is not None:
        return _refused(broker_id, "it belongs to another broker; ask for the next id")
    if broker_id != state.next_id:
        return _refused(
            broker_id, f"the next id of broker set {state.name} is {state.next_id}"
        )
    if len(state.replicas) >= BROKERS_MAX:
        return Rejected(
            ResponseCode.CONTROLLER_INVALID_REQUEST,
            f"broker set {state.name} has {BROKERS_MAX} brokers, as many as may be: "
            "clean those that never come back (`pystore admin cleanBrokerMetadata`)",
        )
    applied = IdApplied(broker_id, code, code.partition(";")[0])
    return Accepted(events_of(state, applied), Applied(broker_id))


def _of_unknown_ids(state: SetState, facts: Facts) -> Rejected | None:
    """
    Returns the refusal of new ids while a broker is heard that has an id of this record
    store, and the record did not allocate it: the record is older than its set.
    """
    unknown = sorted(
        one
        for one, heard in facts.last_heartbeats.items()
        if heard.is_of_cluster and one >= state.next_id
    )
    if not unknown:
        return None
    return Rejected(
        ResponseCode.CONTROLLER_INVALID_REQUEST,
        f"broker {unknown[-1]} of set {state.name} is heard, but the record has "
        f"allocated no id above {state.next_id - 1}: the record is older than the set: "
        "no id is given until it is rebuilt (`pystore admin rebuildSet`)",
        frozenset(unknown),
    )


def _refused(broker_id: int, reason: str) -> Rejected:
    ids = frozenset({broker_id})
    return Rejected(
        ResponseCode.CONTROLLER_BROKER_ID_INVALID,
        f"broker id {broker_id}: {reason}",
        ids,
    )
