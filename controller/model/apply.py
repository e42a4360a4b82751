"""
Applies events to the state of a broker set. Pure and total: it never raises.

An event for another version changes nothing, so a repeated or late event does no harm
(RMQ-R112, RMQ-R232).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import reduce
from typing import Any, TypeVar

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
    SetEvent,
    SetImported,
)
from pystore.controller.model.log_end import NOWHERE
from pystore.controller.model.replica import (
    LogStanding,
    OriginalProcess,
    RegisteredBroker,
    Tombstone,
)
from pystore.controller.model.state import SetState
from pystore.replicaset import AgreedSet, Member, ids_of

__all__ = ["LOSSES_MAX", "TOMBSTONES_MAX", "apply", "apply_all"]

_Numbered = TypeVar("_Numbered", RegisteredBroker, Tombstone)

LOSSES_MAX = 16
"""The number of losses that are kept; the oldest are dropped first."""

TOMBSTONES_MAX = 64
"""The number of tombstones that are kept; other cleaned ids stay unused, too."""


def apply(state: SetState, event: SetEvent) -> SetState:
    """
    Returns the state after an event, or the same one if it is not for its version.
    """
    if event.version != state.version:
        return state
    changed = _CHANGES[type(event.change)](state, event.change)
    return replace(changed, version=state.version + 1)


def apply_all(state: SetState, events: Iterable[SetEvent]) -> SetState:
    """
    Returns the state after events, in their order.
    """
    return reduce(apply, events, state)


def _id_applied(state: SetState, change: IdApplied) -> SetState:
    if state.replica(change.broker_id) is not None:
        return state
    replica = RegisteredBroker(
        change.broker_id, change.check_code, change.address, was_listed=False
    )
    return replace(
        state,
        replicas=_sorted((*state.replicas, replica)),
        next_id=max(state.next_id, change.broker_id + 1),
    )


def _registered(state: SetState, change: BrokerRegistered) -> SetState:
    old = state.replica(change.broker_id)
    if old is None:
        return state
    counter = change.incarnation.counter if change.incarnation else 0
    before = old.member
    if change.is_return and old.original is not None:
        before = Member(old.broker_id, old.original.incarnation)
    new = replace(
        _with_original(old, change),
        address=change.address,
        incarnation=change.incarnation,
        counter_max=max(old.counter_max, counter),
        boot_id=change.boot_id,
        standing=change.standing,
        recovered=change.recovered,
        seen=change.seen,
        ha_address=change.ha_address,
        begin=change.begin,
    )
    state = _with(state, new)
    if new.member == before or not _keeps_its_place(old, new):
        return state
    return _relisted(state, lambda one: new.member if one == before else one)


def _with_original(old: RegisteredBroker, change: BrokerRegistered) -> RegisteredBroker:
    """
    Returns a broker with what is known of its own store, as another one comes under its
    id, or goes.
    """
    if change.is_return:
        return replace(old, original=None, strange=old.incarnation)
    is_other = change.standing.needs_operator and not old.standing.needs_operator
    if not is_other or old.incarnation in (None, change.incarnation):
        return old
    assert old.incarnation is not None
    original = OriginalProcess(
        old.incarnation, old.counter_max, old.boot_id, old.standing
    )
    return replace(old, original=original)


def _keeps_its_place(old: RegisteredBroker, new: RegisteredBroker) -> bool:
    """
    Returns whether a new process takes the place of the one before in the lists: it
    lost nothing (B2), or the record was rebuilt, and knows no process of its brokers.
    """
    is_first = not old.address and new.standing is LogStanding.RESTARTED
    return is_first or new.standing is LogStanding.SOUND


def _mastership_ended(state: SetState, change: MastershipEnded) -> SetState:
    return replace(
        state,
        master=None,
        epoch=state.epoch + 1,
        resigned=state.master if change.is_resigned else None,
        unreleased=_unreleased(state, is_released=change.is_released),
    )


def _elected(state: SetState, change: MasterElected) -> SetState:
    elected = state.replica(change.master.broker_id)
    if elected is not None:
        state = _with(
            state, replace(elected, standing=LogStanding.SOUND, was_listed=True)
        )
    losses = (*state.losses, *change.losses)
    return replace(
        state,
        is_founded=True,
        master=change.master,
        epoch=max(state.epoch, change.told_epoch) + 1,
        agreed=AgreedSet(
            frozenset({change.master}), state.agreed.set_epoch + 1, change.candidates
        ),
        resigned=None,
        unreleased=(
            (_unreleased(state, is_released=change.is_released) | change.others)
            - {change.master}
        ),
        losses=losses[-LOSSES_MAX:],
    )


def _set_changed(state: SetState, change: SetChanged) -> SetState:
    added = ids_of(change.members - state.agreed.members)
    for replica in state.replicas:
        if replica.broker_id in added:
            # A Java broker tells no start: what it held before it was filled is past.
            seen = NOWHERE if replica.incarnation is None else replica.seen
            admitted = replace(
                replica, standing=LogStanding.SOUND, seen=seen, was_listed=True
            )
            state = _with(state, admitted)
    agreed = AgreedSet(change.members, state.agreed.set_epoch + 1, change.candidates)
    return replace(state, agreed=agreed)


def _cleaned(state: SetState, change: BrokersCleaned) -> SetState:
    gone = change.broker_ids
    tombstones = (
        *state.tombstones,
        *(
            Tombstone(one.broker_id, one.check_code, one.counter_max, one.seen)
            for one in state.replicas
            if one.broker_id in gone
        ),
    )
    if state.master is not None and state.master.broker_id in gone:
        state = _mastership_ended(state, MastershipEnded(is_released=False))
    state = _relisted(state, lambda one: None if one.broker_id in gone else one)
    staying = tuple(one for one in state.replicas if one.broker_id not in gone)
    return replace(
        state,
        replicas=staying,
        tombstones=_sorted(tombstones)[-TOMBSTONES_MAX:],
        # All brokers that acknowledged messages are gone: the set starts again.
        is_founded=state.is_founded and bool(staying),
        preferred_id=None if state.preferred_id in gone else state.preferred_id,
    )


def _deleted(state: SetState, _: SetDeleted) -> SetState:
    if state.master is not None:
        state = _mastership_ended(state, MastershipEnded(is_released=False))
    state = _relisted(state, lambda _: None)
    return SetState(
        *state.key,
        version=state.version,
        next_id=state.next_id,
        epoch=state.epoch,
        agreed=state.agreed,
        unreleased=state.unreleased,
    )


def _imported(state: SetState, change: SetImported) -> SetState:
    new, agreed = change.state, change.state.agreed
    if state.version and new.epoch <= state.epoch:
        # No epoch has two masters.
        if new.master is not None:
            new = _mastership_ended(new, MastershipEnded(is_released=False))
        new = replace(new, epoch=state.epoch + 1)
    if state.version and agreed.set_epoch <= state.agreed.set_epoch:
        agreed = replace(agreed, set_epoch=state.agreed.set_epoch + 1)
    return replace(
        new,
        cluster=state.cluster,
        name=state.name,
        version=state.version,
        next_id=max(state.next_id, new.next_id),
        agreed=agreed,
        unreleased=state.unreleased | new.unreleased,
    )


def _broker_changed(state: SetState, change: BrokerChanged) -> SetState:
    old = state.replica(change.broker_id)
    if old is None:
        return state
    new = replace(old, is_learner=change.is_learner, priority=change.priority)
    after = _with(state, new)
    if old.is_learner == new.is_learner:
        return after
    if new.is_learner:
        after = _unlisted(after, change.broker_id)
    # Also of a broker that was not listed: each replica takes the newest set it is
    # told, and with it whether it is a learner.
    agreed = replace(after.agreed, set_epoch=state.agreed.set_epoch + 1)
    return replace(after, agreed=agreed)


def _policy_changed(state: SetState, change: PolicyChanged) -> SetState:
    return replace(
        state, preferred_id=change.preferred_id, is_automatic=change.is_automatic
    )


def _copies_changed(state: SetState, change: CopiesChanged) -> SetState:
    return replace(state, copies=change.copies)


def _readmitted(state: SetState, change: Readmitted) -> SetState:
    old, tombstone = state.replica(change.broker_id), state.tombstone(change.broker_id)
    if old is not None:
        process = old.incarnation
        # The next start of a restored store counts on from here.
        counter = old.counter_max if process is None else process.counter
        strange = old.strange if old.original is None else old.original.incarnation
        new = replace(
            old,
            standing=LogStanding.RESTARTED,
            counter_max=counter,
            original=None,
            strange=strange,
        )
        state = _with(state, new)
    elif tombstone is not None:
        new = RegisteredBroker(
            tombstone.broker_id,
            tombstone.check_code,
            tombstone.check_code.partition(";")[0],
            # The process that was cleaned may still run, and registers again.
            counter_max=max(tombstone.counter_max - 1, 0),
            standing=LogStanding.RESTARTED,
            seen=tombstone.seen,
        )
        state = replace(
            state,
            replicas=_sorted((*state.replicas, new)),
            tombstones=tuple(one for one in state.tombstones if one != tombstone),
        )
    return _unlisted(state, change.broker_id)


def _leases_ended(state: SetState, change: LeasesEnded) -> SetState:
    return replace(state, unreleased=state.unreleased - change.members)


def _ends_seen(state: SetState, change: EndsSeen) -> SetState:
    for broker_id, position in change.positions:
        old = state.replica(broker_id)
        if old is not None:
            state = _with(state, replace(old, seen=max(old.seen, position)))
    return state


def _refusal_noted(state: SetState, change: RefusalNoted) -> SetState:
    return replace(state, refusal=change.refusal)


# Each takes its own type of change, which the type of the table cannot express.
_CHANGES: dict[type[Change], Callable[[SetState, Any], SetState]] = {
    IdApplied: _id_applied,
    BrokerRegistered: _registered,
    MastershipEnded: _mastership_ended,
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


def _unreleased(state: SetState, *, is_released: bool) -> frozenset[Member]:
    """
    Returns the members whose leases may run after the present mastership; Java brokers
    have no leases.
    """
    master = state.master
    if master is None or master.incarnation is None or is_released:
        return state.unreleased
    return state.unreleased | {master}


def _with(state: SetState, new: RegisteredBroker) -> SetState:
    replicas = (
        new if one.broker_id == new.broker_id else one for one in state.replicas
    )
    return replace(state, replicas=tuple(replicas))


def _unlisted(state: SetState, broker_id: int) -> SetState:
    return _relisted(state, lambda one: None if one.broker_id == broker_id else one)


def _relisted(state: SetState, of: Callable[[Member], Member | None]) -> SetState:
    """
    Replaces or removes listed members; the SyncStateSet epoch rises if that changes
    anything.
    """
    agreed = state.agreed
    members, candidates = (
        frozenset(new for new in map(of, old) if new is not None)
        for old in (agreed.members, agreed.candidates)
    )
    if (members, candidates) == (agreed.members, agreed.candidates):
        return state
    return replace(state, agreed=AgreedSet(members, agreed.set_epoch + 1, candidates))


def _sorted(some: tuple[_Numbered, ...]) -> tuple[_Numbered, ...]:
    return tuple(sorted(some, key=lambda one: one.broker_id))
