"""
Elections. Pure.

The epoch rises with every election, also if the same broker is elected again, and once
if no broker can be elected (RMQ-R58, RMQ-R59, RMQ-R62).

Source: formats 4.3; RMQ-R47 to RMQ-R61; C3.
"""

from __future__ import annotations

from pystore.controller.decide.election_policy import (
    ElectionChoice,
    choose,
    founder,
    is_filling,
)
from pystore.controller.model.apply import apply_all
from pystore.controller.model.commands import Elect, Trigger
from pystore.controller.model.decision import (
    Accepted,
    CommandResult,
    Rejected,
    events_of,
)
from pystore.controller.model.events import MasterElected, MastershipEnded
from pystore.controller.model.facts import Facts
from pystore.controller.model.replies import Election
from pystore.controller.model.state import SetState
from pystore.controller.model.views import leadership_of, living_leadership
from pystore.remoting.codes import ResponseCode

__all__ = ["elect"]


def elect(state: SetState, command: Elect, facts: Facts) -> CommandResult:
    """
    Elects a master, names the present one, or refuses.
    """
    if not state.is_known:
        return Rejected(
            ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
            f"broker set {state.name} does not exist",
        )
    is_named = command.trigger is Trigger.OPERATOR and command.broker_id is not None
    named_id = command.broker_id if is_named else None
    living = living_leadership(state, facts)
    if living is not None and named_id in (None, living.master.broker_id):
        return Accepted(
            (),
            Election(ResponseCode.CONTROLLER_MASTER_STILL_EXIST, living, state.agreed),
        )
    refusal = _refusal(state, command, facts, named_id)
    if refusal is not None:
        return refusal
    choice = _choice(state, command, facts, named_id)
    if choice is not None:
        is_released = command.handed_over is not None
        return _elected(state, choice, is_released=is_released)
    if command.trigger is Trigger.CONTROLLER and state.master is not None:
        events = events_of(state, MastershipEnded(is_released=False))
        return Accepted(
            events,
            Election(ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE, None, state.agreed),
        )
    return _no_master(command, _why_nobody(state, facts, named_id))


def _refusal(
    state: SetState, command: Elect, facts: Facts, named_id: int | None
) -> Rejected | None:
    """
    Returns the refusal of any election, or of an unclean one; ``None``: there is none.
    A master that hands over has stepped down: nothing has to be waited for (C3).
    """
    if command.handed_over is not None:
        return _not_by_master(state, command)
    better_id = _better(state, facts, named_id) if command.is_unclean else None
    if better_id is not None:
        return _no_master(
            command,
            f"broker {better_id} is alive and lacks no acknowledged record, so the set "
            "needs no unclean election",
            frozenset({better_id}),
        )
    obstacle = _obstacle(state, command, facts)
    return None if obstacle is None else _no_master(command, obstacle)


def _better(state: SetState, facts: Facts, named_id: int | None) -> int | None:
    """
    Returns a broker that leads or could be elected without loss, while the named one
    could not; ``None``: there is none.
    """
    if named_id is None or choose(state, facts, named_id, is_unclean=False) is not None:
        return None
    living = living_leadership(state, facts)
    if living is not None:
        return living.master.broker_id
    found = choose(state, facts, None, is_unclean=False)
    return None if found is None or found.losses else found.master.broker_id


def _not_by_master(state: SetState, command: Elect) -> Rejected | None:
    """
    Returns the refusal of a successor, unless the present master asks for it.
    """
    master = state.master
    if master is not None and command.handed_over == (master.incarnation, state.epoch):
        return None
    return Rejected(
        ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
        f"the master of epoch {state.epoch} is another process",
    )


def _why_nobody(state: SetState, facts: Facts, named_id: int | None) -> str:
    """
    Returns why no broker can be elected.
    """
    alive = [
        one.broker_id
        for one in state.replicas
        if facts.is_alive(one) and named_id in (None, one.broker_id)
    ]
    if not alive:
        return (
            f"{_names([named_id])} is not alive" if named_id else "no broker is alive"
        )
    verb = "is" if len(alive) == 1 else "are"
    filling = [
        one.broker_id
        for one in state.replicas
        if one.broker_id in alive and is_filling(state, facts, one)
    ]
    if filling:
        return (
            f"{_names(filling)} {verb} alive and filling: older records of the set are "
            "not in its log (`pystore admin describeBrokerSet`: beginOffset); start a "
            "broker that has them, or accept their loss with an unclean election"
        )
    return (
        f"{_names(alive)} {verb} alive, but no member of the SyncStateSet that is "
        "known to hold every acknowledged record (`pystore admin describeBrokerSet` "
        "says why): only an unclean election, which may lose records, could elect "
        "(`pystore admin electMaster --unclean` shows which)"
    )


def _names(broker_ids: list[int]) -> str:
    noun = "broker" if len(broker_ids) == 1 else "brokers"
    return f"{noun} {', '.join(map(str, broker_ids))}"


def _obstacle(state: SetState, command: Elect, facts: Facts) -> str | None:
    """
    Returns the reason against any election; ``None``: there is none.
    """
    master = state.master
    is_over = master is None or facts.has_ended(state.replica(master.broker_id))
    if not facts.may_replace and not is_over:
        # The master may be alive, and its heartbeat not received yet (C3, RMQ-R226).
        return (
            "this controller leads too short a time to know whether the master is alive"
        )
    if not state.is_automatic and command.trigger is not Trigger.OPERATOR:
        return f"broker set {state.name} elects only on request of an operator"
    return None


def _choice(
    state: SetState, command: Elect, facts: Facts, named_id: int | None
) -> ElectionChoice | None:
    if not state.is_founded and command.broker_id is not None:
        return founder(state, facts, command.broker_id)
    is_unclean = command.is_unclean or facts.is_unclean_allowed
    return choose(state, facts, named_id, is_unclean=is_unclean)


def _elected(state: SetState, choice: ElectionChoice, *, is_released: bool) -> Accepted:
    elected = MasterElected(
        choice.master, choice.candidates, choice.losses, is_released
    )
    events = events_of(state, elected)
    after = apply_all(state, events)
    addresses = tuple((one.broker_id, one.address) for one in after.replicas)
    leadership = leadership_of(after)
    return Accepted(
        events, Election(ResponseCode.SUCCESS, leadership, after.agreed, addresses)
    )


def _no_master(
    command: Elect, reason: str, broker_ids: frozenset[int] = frozenset()
) -> Rejected:
    code = ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    if command.trigger is Trigger.CONTROLLER:
        code = ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE
    return Rejected(code, f"no master elected: {reason}", broker_ids)
