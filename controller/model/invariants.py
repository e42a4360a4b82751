"""
The invariants of every state of a broker set, and of every step to the next. Pure.

Tests check them after each event. A controller refuses a record that breaks one:
another program or a defect of ours wrote it.

Source: RMQ-R35, RMQ-R36, RMQ-R103, RMQ-R108, RMQ-R203, RMQ-R254 to RMQ-R256; B1, B7.
"""

from __future__ import annotations

from collections.abc import Iterator

from pystore.controller.model.limits import BROKERS_MAX
from pystore.controller.model.replica import LogStanding, RegisteredBroker
from pystore.controller.model.state import SetState

__all__ = ["regressions", "violations"]


def violations(state: SetState) -> tuple[str, ...]:
    """
    Returns the broken invariants of a state, one short line each.
    """
    return (
        *_wrong_ids(state),
        *_wrong_copies(state),
        *_wrong_listing(state),
        *_wrong_mastership(state),
        *(line for one in state.replicas for line in _wrong_replica(state, one)),
    )


def regressions(before: SetState, after: SetState) -> tuple[str, ...]:
    """
    Returns the broken invariants of a step, one short line each.
    """
    return (*_decreased(before, after), *_rewritten(before, after))


def _wrong_ids(state: SetState) -> Iterator[str]:
    ids = [one.broker_id for one in state.replicas]
    tombstones = [one.broker_id for one in state.tombstones]
    if ids != sorted(set(ids)) or tombstones != sorted(set(tombstones)):
        yield "broker ids are not unique and ascending"
    if set(ids) & set(tombstones):
        yield "a broker is registered and cleaned"
    if any(not 0 < one < state.next_id for one in ids + tombstones):
        yield "a broker id was never allocated"


def _wrong_copies(state: SetState) -> Iterator[str]:
    if not 0 <= state.copies <= BROKERS_MAX:
        yield f"the set should have {state.copies} replicas"


def _wrong_listing(state: SetState) -> Iterator[str]:
    listed = [one.broker_id for one in state.listed]
    if len(listed) != len(set(listed)) or (
        state.agreed.members & state.agreed.candidates
    ):
        yield "a broker is listed twice"
    if any(state.replica(one) is None for one in listed):
        yield "a listed broker is not registered"
    if listed and not state.is_founded:
        yield "a set has members, but never had a master"


def _wrong_mastership(state: SetState) -> Iterator[str]:
    master = state.master
    if master is not None:
        replica = state.replica(master.broker_id)
        if master not in state.agreed.members:
            yield "the master is not in its set"
        if replica is None or replica.member != master:
            yield "the master is not the registered process"
        if master in state.unreleased:
            yield "the master waits for its own lease"
    if min(state.epoch, state.agreed.set_epoch, state.version) < 0:
        yield "an epoch or a version is negative"
    if state.is_founded and not state.epoch:
        yield "a master was elected without an epoch"
    if any(one.epoch > state.epoch or one.start >= one.end for one in state.losses):
        yield "a loss is empty, or has a future epoch"
    preferred = state.preferred_id
    if preferred is not None and state.replica(preferred) is None:
        yield "the preferred broker is not registered"


def _wrong_replica(state: SetState, replica: RegisteredBroker) -> Iterator[str]:
    number = replica.broker_id
    listed = [one for one in state.listed if one.broker_id == number]
    if listed and replica.is_learner:
        yield f"learner {number} is listed"
    if replica.standing is LogStanding.SOUND and listed not in ([], [replica.member]):
        yield f"broker {number} is sound, but another process of it is listed"
    if replica.incarnation and replica.incarnation.counter > replica.counter_max:
        yield f"broker {number} has a start counter above its recorded maximum"


def _decreased(before: SetState, after: SetState) -> Iterator[str]:
    for name, old, new in (
        ("version", before.version, after.version),
        ("next id", before.next_id, after.next_id),
        ("epoch", before.epoch, after.epoch),
        ("set epoch", before.agreed.set_epoch, after.agreed.set_epoch),
    ):
        if new < old:
            yield f"the {name} decreased from {old} to {new}"
    for old_one in before.replicas:
        new_one = after.replica(old_one.broker_id)
        if new_one is None or _is_vouched(old_one, new_one):
            continue
        if new_one.counter_max < old_one.counter_max:
            yield f"the start counter of broker {old_one.broker_id} decreased"


def _is_vouched(old: RegisteredBroker, new: RegisteredBroker) -> bool:
    """
    Whether an operator re-admitted a restored store, which counts its starts anew.
    """
    process = new.incarnation
    counter = process.counter if process is not None else None
    is_readmitted = new.standing is LogStanding.RESTARTED
    return old.standing.needs_operator and is_readmitted and new.counter_max == counter


def _rewritten(before: SetState, after: SetState) -> Iterator[str]:
    same_epoch = after.epoch == before.epoch
    if same_epoch and after.master != before.master:
        yield f"epoch {after.epoch} has two masters"
    same_version = after.agreed.set_epoch == before.agreed.set_epoch
    if same_version and after.agreed != before.agreed:
        yield f"SyncStateSet epoch {after.agreed.set_epoch} has two sets"
    for new in after.replicas:
        old = before.replica(new.broker_id) or before.tombstone(new.broker_id)
        if old is None and new.broker_id < before.next_id:
            yield f"broker id {new.broker_id} is allocated again"
        elif old is not None and old.check_code != new.check_code:
            yield f"broker id {new.broker_id} moved to another broker"
