"""
Changes by an operator to a set and to its brokers. Pure.

Source: B1; RMQ-R44, RMQ-R203.
"""

from __future__ import annotations

from pystore.controller.model.commands import (
    ChangeBroker,
    ChangePolicy,
    Readmit,
    SetCopies,
)
from pystore.controller.model.decision import (
    Accepted,
    CommandResult,
    Rejected,
    events_of,
)
from pystore.controller.model.events import (
    BrokerChanged,
    CopiesChanged,
    PolicyChanged,
    Readmitted,
)
from pystore.controller.model.facts import Facts
from pystore.controller.model.limits import BROKERS_MAX
from pystore.controller.model.replies import Done
from pystore.controller.model.state import SetState
from pystore.remoting.codes import ResponseCode
from pystore.replicaset import ids_of

__all__ = ["change_broker", "change_policy", "readmit", "set_copies"]


def change_broker(state: SetState, command: ChangeBroker, _: Facts) -> CommandResult:
    """
    Makes a broker a learner or a voter, or sets its priority.
    """
    old = state.replica(command.broker_id)
    if old is None:
        return _unknown(state, command.broker_id)
    is_learner = old.is_learner if command.is_learner is None else command.is_learner
    priority = old.priority if command.priority is None else command.priority
    if (is_learner, priority) == (old.is_learner, old.priority):
        return Accepted((), Done())
    if is_learner and _is_last(state, command.broker_id):
        return _last(command.broker_id)
    changed = BrokerChanged(command.broker_id, is_learner, priority)
    return Accepted(events_of(state, changed), Done())


def change_policy(state: SetState, command: ChangePolicy, _: Facts) -> CommandResult:
    """
    Prefers a broker among equals, or switches automatic elections on or off.
    """
    if not state.is_known:
        return _absent(state)
    preferred = command.preferred_id
    if preferred and state.replica(preferred) is None:
        return _unknown(state, preferred)
    changed = PolicyChanged(
        state.preferred_id if preferred is None else preferred or None,
        state.is_automatic if command.is_automatic is None else command.is_automatic,
    )
    if changed == PolicyChanged(state.preferred_id, state.is_automatic):
        return Accepted((), Done())
    return Accepted(events_of(state, changed), Done())


def set_copies(state: SetState, command: SetCopies, _: Facts) -> CommandResult:
    """
    Says how many replicas the set should have.
    """
    if not state.is_known:
        return _absent(state)
    if not 0 <= command.copies <= BROKERS_MAX:
        return Rejected(
            ResponseCode.CONTROLLER_INVALID_REQUEST,
            f"a set of {command.copies} replicas: at most {BROKERS_MAX} are allowed, "
            "and 0 means as many as it has voters",
        )
    if command.copies == state.copies:
        return Accepted((), Done())
    return Accepted(events_of(state, CopiesChanged(command.copies)), Done())


def readmit(state: SetState, command: Readmit, _: Facts) -> CommandResult:
    """
    Lets a master fill and admit a broker whose standing bars it.
    """
    broker_id = command.broker_id
    old = state.replica(broker_id)
    if old is None and state.tombstone(broker_id) is None:
        return _unknown(state, broker_id)
    if old is not None and not old.standing.needs_operator:
        return Accepted((), Done())
    if _is_last(state, broker_id):
        return _last(
            broker_id,
            "; or, if its log is to be accepted as it is, elect this one: `pystore "
            "admin electMaster --unclean` shows what is lost",
        )
    return Accepted(events_of(state, Readmitted(broker_id)), Done())


def _is_last(state: SetState, broker_id: int) -> bool:
    """
    Whether a broker is master, or the only member: it cannot leave the set.
    """
    is_master = state.master is not None and state.master.broker_id == broker_id
    return is_master or ids_of(state.agreed.members) == {broker_id}


def _last(broker_id: int, otherwise: str = "") -> Rejected:
    return Rejected(
        ResponseCode.CONTROLLER_INVALID_REQUEST,
        f"broker {broker_id} is the master or the last member of the SyncStateSet: "
        f"elect another broker first{otherwise}",
        frozenset({broker_id}),
    )


def _absent(state: SetState) -> Rejected:
    return Rejected(
        ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST,
        f"broker set {state.name} does not exist",
    )


def _unknown(state: SetState, broker_id: int) -> Rejected:
    return Rejected(
        ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
        f"broker set {state.name} has no broker {broker_id}",
        frozenset({broker_id}),
    )
