"""
Elections. Pure.

The epoch rises with every election, also if the same broker is elected again, and once
if no broker can be elected (RMQ-R58, RMQ-R59, RMQ-R62).

Source: formats 4.3; RMQ-R47 to RMQ-R61; C3.
"""

from __future__ import annotations

from dataclasses import replace

from pystore.controller.decide.election_policy import (
    ElectionChoice,
    choose,
    founder,
    further_than_founder,
    is_filling,
    whole_and_filling,
)
from pystore.controller.decide.told_epochs import (
    EPOCH_JUMP_MAX,
    furthest_above,
    jump_of,
    leases_above,
    told_epoch,
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
from pystore.controller.model.log_end import LogEnd
from pystore.controller.model.replica import RegisteredBroker
from pystore.controller.model.replies import Election
from pystore.controller.model.state import LossRange, SetState
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
        return _settled(state, command, facts, choice)
    if command.trigger is Trigger.CONTROLLER and state.master is not None:
        events = events_of(state, MastershipEnded(is_released=False))
        return Accepted(
            events,
            Election(ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE, None, state.agreed),
        )
    reason = _why_no_founder(state, command, facts) if _founds(state, command) else ""
    return _no_master(command, reason or _why_nobody(state, facts, named_id))


def _refusal(
    state: SetState, command: Elect, facts: Facts, named_id: int | None
) -> Rejected | None:
    """
    Returns the refusal of any election, or of an unclean one; ``None``: there is none.
    A master that hands over has stepped down: nothing has to be waited for (C3).
    """
    jump = jump_of(state, facts)
    if jump is not None:
        return _no_master(command, _of_jump(state, *jump), frozenset({jump[0]}))
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


def _of_jump(state: SetState, broker_id: int, epoch: int) -> str:
    return (
        f"broker {broker_id} tells epoch {epoch}, more than {EPOCH_JUMP_MAX} above the "
        f"{state.epoch} of the record: clean that broker if it is wrong, or rebuild "
        "the set (`pystore admin rebuildSet`)"
    )


def _settled(
    state: SetState, command: Elect, facts: Facts, choice: ElectionChoice
) -> CommandResult:
    """
    Elects the chosen broker, unless the record is older than its set, and another log
    goes further: an operator may accept that loss.
    """
    further = _further(state, facts, choice)
    if further is not None:
        broker_id, end = further
        if not (command.is_unclean or facts.is_unclean_allowed):
            reason = _of_further(state, choice, broker_id, end)
            return _no_master(command, reason, frozenset({broker_id}))
        if not choice.losses:
            choice = _with_loss(state, facts, choice, end)
    is_released = command.handed_over is not None
    return _elected(state, facts, choice, is_released=is_released)


def _further(
    state: SetState, facts: Facts, choice: ElectionChoice
) -> tuple[int, LogEnd] | None:
    """
    Returns id and log end of a broker that has more than the chosen one, if the record
    is older than its set: then it does not know which logs were in sync.
    """
    further = furthest_above(state, facts)
    elected = state.replica(choice.master.broker_id)
    if further is None or elected is None or facts.position(elected) >= further[1]:
        return None
    return further


def _with_loss(
    state: SetState, facts: Facts, choice: ElectionChoice, end: LogEnd
) -> ElectionChoice:
    """
    Returns a choice that an operator accepts, with what the chosen broker lacks.
    """
    elected = state.replica(choice.master.broker_id)
    start = max(facts.position(elected).end, 0) if elected is not None else 0
    lost = LossRange(told_epoch(state, facts) + 1, start, end.end, "unclean")
    return replace(choice, losses=(lost,)) if lost.start < lost.end else choice


def _of_further(
    state: SetState, choice: ElectionChoice, broker_id: int, end: LogEnd
) -> str:
    return (
        f"broker {broker_id} has a log of epoch {end.epoch} to {end.end}, above the "
        f"record's epoch {state.epoch} and further than that of broker "
        f"{choice.master.broker_id}: the record is older than the set, or that log is "
        "of another one; clean that broker if it is wrong, or rebuild the set "
        "(`pystore admin rebuildSet`)"
    )


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
    if found is None or found.losses or _further(state, facts, found) is not None:
        return None
    return found.master.broker_id


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
    unheard = [one.broker_id for one in state.replicas if not one.address]
    if unheard and state.is_founded:
        return (
            f"the set was rebuilt, and {_names(unheard)} did not register since: start "
            "it, or clean it if it is lost (`pystore admin cleanBrokerMetadata`)"
        )
    verb = "is" if len(alive) == 1 else "are"
    beside = whole_and_filling(state, facts)
    if beside is not None and named_id in (None, beside[0].broker_id):
        return _why_not_beside(*beside, facts)
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


def _why_not_beside(
    whole: RegisteredBroker, filling: RegisteredBroker, facts: Facts
) -> str:
    """
    Returns why a member that has restarted is not elected beside a filling one.
    """
    one, other = whole.broker_id, filling.broker_id
    end, further = facts.position(whole), facts.position(filling)
    if end >= further:
        return (
            f"broker {other} has to learn that the mastership before is over, and to "
            f"tell so: then broker {one} is elected"
        )
    return (
        f"broker {one} has the older records of the set, and its log ends at "
        f"{end.end} in epoch {end.epoch}; broker {other}, which is filling, may have "
        f"acknowledged records up to {further.end} in epoch {further.epoch}: elect "
        f"broker {other} with an unclean election, wait until broker {one} is in the "
        f"SyncStateSet, and hand over to it (`pystore admin switchMaster`): then "
        "nothing is lost"
    )


def _why_no_founder(state: SetState, command: Elect, facts: Facts) -> str:
    """
    Returns whose records a broker lacks that would begin a set again; empty: that is
    not the reason.
    """
    asked = state.replica(command.broker_id or 0)
    further = None if asked is None else further_than_founder(state, facts, asked)
    if asked is None or further is None:
        return ""
    broker_id, end = further
    other = state.replica(broker_id)
    is_alive = facts.is_alive(other)
    told = max(facts.position(asked).end, 0)
    loss = "accept the loss (`pystore admin electMaster --unclean`)"
    if other == asked:
        return (
            f"broker {broker_id} had records up to {end.end}, and tells of {told} now: "
            f"wait until it has registered; if its store has no more, {loss}"
        )
    verb, order = ("has", "wait for it") if is_alive else ("had", "start it")
    if other is None:
        order = "bring it back (`pystore admin readmitBroker`)"
    return (
        f"broker {broker_id} {verb} records up to {end.end}, broker {asked.broker_id} "
        f"only up to {told}: {order}, or {loss}"
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


def _founds(state: SetState, command: Elect) -> bool:
    """
    Returns whether a broker is to be the first master of a set.
    """
    return not (state.is_founded or command.broker_id is None or command.is_unclean)


def _choice(
    state: SetState, command: Elect, facts: Facts, named_id: int | None
) -> ElectionChoice | None:
    if _founds(state, command):
        return founder(state, facts, command.broker_id or 0)
    is_unclean = command.is_unclean or facts.is_unclean_allowed
    return choose(state, facts, named_id, is_unclean=is_unclean)


def _elected(
    state: SetState, facts: Facts, choice: ElectionChoice, *, is_released: bool
) -> Accepted:
    elected = MasterElected(
        choice.master,
        choice.candidates,
        choice.losses,
        is_released,
        told_epoch(state, facts),
        leases_above(state, facts),
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
