"""
The changes of a set in sentences, for people. Pure.

Source: RMQ-R271; docs/operations.md, *What happened?*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pystore.controller.model.commands import Command, Elect, Trigger
from pystore.controller.model.events import (
    BrokerChanged,
    BrokerRegistered,
    BrokersCleaned,
    Change,
    CopiesChanged,
    EndsSeen,
    IdApplied,
    LeasesEnded,
    MasterElected,
    MastershipEnded,
    PolicyChanged,
    Readmitted,
    RefusalNoted,
    SetChanged,
    SetDeleted,
    SetImported,
)
from pystore.controller.model.log_end import LogEnd
from pystore.controller.model.state import LossRange, SetState
from pystore.replicaset import ids_of
from pystore.text import count_text

__all__ = ["change_text", "losses_text", "request_text"]


def change_text(before: SetState, change: Change) -> str:
    """
    Returns a change of a set as one line.

    Args:
        before: the set before it.
        change: to it.
    """
    return _TEXTS[type(change)](before, change)


def request_text(command: Command) -> str:
    """
    Returns what led to a change, as a part of a line.
    """
    if isinstance(command, Elect):
        text = _TRIGGERS[command.trigger]
        return f"{text}, unclean" if command.is_unclean else text
    return type(command).__name__


def losses_text(losses: Iterable[LossRange]) -> str:
    """
    Returns the ranges that an election may lose; empty: there are none.
    """
    return ", ".join(
        f"{count_text(one.start)} to {count_text(one.end)} ({one.cause})"
        for one in losses
    )


_TRIGGERS = {
    Trigger.BROKER: "election for a broker",
    Trigger.OPERATOR: "election by an operator",
    Trigger.CONTROLLER: "election by the controller",
}


def _applied(_: SetState, change: IdApplied) -> str:
    return f"broker {change.broker_id} got its id, at {change.address}"


def _registered(before: SetState, change: BrokerRegistered) -> str:
    old = before.replica(change.broker_id)
    is_same = old is not None and old.incarnation == change.incarnation is not None
    what = "registered again" if is_same else "registered"
    process = change.incarnation
    number = "" if process is None else f", its start {process.counter}"
    return (
        f"broker {change.broker_id} {what} from {change.address}{number}: its log "
        f"{_end_text(change.recovered)}, {change.standing.value}"
    )


def _end_text(end: LogEnd) -> str:
    if end.end < 0:
        return "has an unknown end"
    return f"ends at {count_text(end.end)} in epoch {end.epoch}"


def _ended(before: SetState, change: MastershipEnded) -> str:
    master = before.master
    who = "no broker" if master is None else f"broker {master.broker_id}"
    if change.is_resigned:
        why = "it resigned"
    elif change.is_released:
        why = "it stepped down, or its process ended"
    else:
        why = "it is not alive, and no other broker can be elected"
    return f"{who} is master no more: {why}; epoch {before.epoch + 1} has no master"


def _elected(before: SetState, change: MasterElected) -> str:
    epoch = max(before.epoch, change.told_epoch) + 1
    text = f"broker {change.master.broker_id} is master in epoch {epoch}"
    old = before.master
    if old is not None and old.broker_id != change.master.broker_id:
        text += f" instead of broker {old.broker_id}"
    if change.candidates:
        text += f"; candidates: {_brokers(ids_of(change.candidates))}"
    lost = losses_text(change.losses)
    return f"{text}; these bytes may be lost: {lost}" if lost else text


def _set_changed(before: SetState, change: SetChanged) -> str:
    old, new = ids_of(before.agreed.members), ids_of(change.members)
    left, joined = old - new, new - old
    parts = []
    if left:
        parts.append(f"{_brokers(left)} left the SyncStateSet")
    if joined:
        parts.append(f"{_brokers(joined)} joined the SyncStateSet")
    if change.candidates and not parts:
        parts.append(f"candidates: {_brokers(ids_of(change.candidates))}")
    if not parts:
        parts.append("the SyncStateSet has other processes of the same brokers")
    return f"{'; '.join(parts)}: it is {_brokers(new)} now"


def _cleaned(_: SetState, change: BrokersCleaned) -> str:
    return f"{_brokers(change.broker_ids)} removed from the set"


def _deleted(before: SetState, _: SetDeleted) -> str:
    return f"the set was deleted: its next id stays {before.next_id}"


def _imported(_: SetState, change: SetImported) -> str:
    ids = [one.broker_id for one in change.state.replicas]
    return f"the record was imported: {_brokers(ids)}, epoch {change.state.epoch}"


def _broker_changed(_: SetState, change: BrokerChanged) -> str:
    what = "a learner" if change.is_learner else "a voter"
    priority = "none" if change.priority is None else str(change.priority)
    return f"broker {change.broker_id} is {what}, priority {priority}"


def _policy_changed(_: SetState, change: PolicyChanged) -> str:
    how = "automatic" if change.is_automatic else "on request of an operator only"
    who = f"broker {change.preferred_id}" if change.preferred_id else "no broker"
    return f"elections are {how}, and {who} is preferred"


def _copies_changed(_: SetState, change: CopiesChanged) -> str:
    if not change.copies:
        return "the set should have as many replicas as it has voters"
    return f"the set should have {change.copies} replica{'s' * (change.copies > 1)}"


def _readmitted(_: SetState, change: Readmitted) -> str:
    return (
        f"broker {change.broker_id} may be filled and admitted again, by an operator's "
        "word"
    )


def _leases_ended(_: SetState, change: LeasesEnded) -> str:
    return f"the leases of {_brokers(ids_of(change.members))} have ended"


def _ends_seen(_: SetState, change: EndsSeen) -> str:
    return f"log ends of {_brokers(one for one, _ in change.positions)} stored"


def _refusal_noted(_: SetState, change: RefusalNoted) -> str:
    return f"refused: {change.refusal.reason}"


def _brokers(ids: Iterable[int]) -> str:
    found = sorted(ids)
    if not found:
        return "no broker"
    noun = "broker" if len(found) == 1 else "brokers"
    return f"{noun} {', '.join(map(str, found))}"


_TEXTS: dict[type[Change], Callable[[SetState, Any], str]] = {
    IdApplied: _applied,
    BrokerRegistered: _registered,
    MastershipEnded: _ended,
    MasterElected: _elected,
    SetChanged: _set_changed,
    BrokersCleaned: _cleaned,
    SetDeleted: _deleted,
    SetImported: _imported,
    BrokerChanged: _broker_changed,
    PolicyChanged: _policy_changed,
    CopiesChanged: _copies_changed,
    Readmitted: _readmitted,
    LeasesEnded: _leases_ended,
    EndsSeen: _ends_seen,
    RefusalNoted: _refusal_noted,
}
