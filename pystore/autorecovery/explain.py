"""
Why a segment, or a lost replica, does not move: each copy, yes or no and why, what
remains of a delay, and when the next try is. Pure.

Source: AR-R18; docs/autorecovery.md, *The Auditor*.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pystore.autorecovery.copies import fill_plan, is_short
from pystore.autorecovery.dead_segment import DeadSegment
from pystore.autorecovery.findings import is_whole_at
from pystore.autorecovery.loss import (
    LossPhase,
    LossStanding,
    ReplicaLoss,
    loss_standing,
)
from pystore.autorecovery.mark import SegmentMark
from pystore.autorecovery.segment_key import SegmentKey
from pystore.autorecovery.settings import RecoverySettings
from pystore.controller.protocol.set_descriptions import (
    BrokerDescription,
    SetDescription,
)
from pystore.segments.order import ReplicaStat

__all__ = [
    "SegmentCase",
    "explain",
    "explain_copy",
    "explain_loss",
    "explain_state",
    "next_try_ms",
]


@dataclass(frozen=True, slots=True)
class SegmentCase:
    """
    What is known about a segment at one moment.

    Attributes:
        key: of the segment.
        now_ms: Unix time.
        settings: at this moment.
        description: of its set; ``None``: the controller tells no such set.
        mark: in the queue; ``None``: it has none.
        holder: the slot of a worker that repairs it; empty: none.
        dead: its record; ``None``: it is not dead.
        losses: of replicas of the set, by broker id.
        maintenance: the ends of their maintenance, by broker id; Unix time.
        stats: the answers of its replicas, by broker id, as far as they were asked.
        is_enabled: workers may take segments.
        pause: which pause keeps workers from it, one line; empty: none.
        is_damaged: the record of its set at the controller is unreadable.
    """

    key: SegmentKey
    now_ms: int
    settings: RecoverySettings = field(default_factory=RecoverySettings)
    description: SetDescription | None = None
    mark: SegmentMark | None = None
    holder: str = ""
    dead: DeadSegment | None = None
    losses: Mapping[int, ReplicaLoss] = field(default_factory=dict)
    maintenance: Mapping[int, int] = field(default_factory=dict)
    stats: Mapping[int, ReplicaStat] = field(default_factory=dict)
    is_enabled: bool = True
    pause: str = ""
    is_damaged: bool = False


def explain(case: SegmentCase) -> list[str]:
    """
    Returns why a segment does not move: what it waits for first, then one line for each
    copy.
    """
    return [*explain_state(case), *_copies(case)]


def explain_state(case: SegmentCase) -> list[str]:
    """
    Returns what a segment waits for, without its copies.
    """
    return list(_state(case))


def next_try_ms(case: SegmentCase) -> int:
    """
    Returns when a worker may take a segment, Unix time, also a past one; 0: it is not
    known when, since it has no mark, is dead, or is being repaired.
    """
    if case.mark is None or case.dead is not None or case.holder:
        return 0
    return max(case.mark.not_before_ms, case.mark.last_ms)


def explain_copy(case: SegmentCase, broker: BrokerDescription) -> str:
    """
    Returns whether a copy can be a source of a repair, and why not.
    """
    out = _outside(case, broker)
    if out:
        return out
    base, known = case.key.start, case.mark or (case.dead and case.dead.mark)
    fact = known.missing.get(broker.broker_id) if known else None
    if fact is not None:
        why = f": {fact.detail}" if fact.detail else ""
        return f"no: {fact.reason.value}{why}"
    stat = case.stats.get(broker.broker_id)
    if stat is None:
        return "unknown: it was not asked, or gave no answer"
    if is_whole_at(stat, base):
        after = ", after the others, since its store is ill" if broker.is_ill else ""
        return f"yes{after}: its file can be read as a whole"
    told = {**stat.problems, **stat.holes}
    problem = told.get(base, "the segment is not settled there")
    return f"no: {problem}"


def explain_loss(
    loss: ReplicaLoss,
    settings: RecoverySettings,
    now_ms: int,
    *,
    until_ms: int = 0,
    missing: int = 1,
) -> str:
    """
    Returns why a lost replica is not made anew yet, one line; the arguments are those
    of `loss_standing`.
    """
    found = loss_standing(loss, settings, now_ms, until_ms=until_ms, missing=missing)
    return _standing_text(found, loss, now_ms)


def _state(case: SegmentCase) -> Iterator[str]:
    if case.is_damaged:
        yield "the controller's record of the set is unreadable: no worker repairs it"
    elif case.description is None:
        yield "the controller tells no such set: a worker will clear the mark"
    if case.dead is not None:
        yield (
            f"dead: no copy is good since {_ago(case, case.dead.at_ms)}: "
            f"{case.dead.evidence}; it returns when a copy is reported"
        )
        return
    mark = case.mark
    if mark is None:
        yield "not marked: nothing is known to be missing"
        return
    if case.holder:
        yield f"{case.holder} repairs it"
        return
    if not case.is_enabled:
        yield "no worker may take it: AutoRecovery is disabled"
    if case.pause:
        yield f"no worker takes it: {case.pause}"
    if mark.not_before_ms > case.now_ms:
        left_s = _seconds(mark.not_before_ms - case.now_ms)
        yield f"{mark.tries} tries failed: the next one is in {left_s} s"
    elif case.is_enabled and not case.pause:
        yield f"it waits for a worker since {_ago(case, next_try_ms(case))}"
    if mark.why:
        yield f"the last try needed: {mark.why}"


def _copies(case: SegmentCase) -> Iterator[str]:
    for broker in () if case.description is None else case.description.brokers:
        yield f"broker {broker.broker_id}: {explain_copy(case, broker)}"


def _outside(case: SegmentCase, broker: BrokerDescription) -> str:
    """
    Returns why a replica has no copy that may be read; empty: its log has the segment.
    """
    if not (broker.is_alive or broker.is_ill):
        lost = case.losses.get(broker.broker_id)
        why = "" if lost is None else f", {_loss_text(case, broker, lost)}"
        return f"no: dead{why}"
    if broker.incarnation is None:
        return "no: a broker of RocketMQ: it counts as a copy, unverified"
    if broker.begin.offset < 0:
        return "no: it does not tell where its log begins"
    return _above(case, broker) if broker.begin.offset > case.key.start else ""


def _above(case: SegmentCase, broker: BrokerDescription) -> str:
    one, begin = case.description, broker.begin.offset
    if one is not None and broker.begin.is_filling:
        stat = case.stats.get(broker.broker_id)
        size = 0 if stat is None else stat.segment_size
        plan = fill_plan(one, broker, size, case.settings.fill_window)
        why = plan.why or f"{plan.left} segments are left"
        if plan.bases and case.key.start < plan.bases[-1]:
            why = f"{why}, and higher ones come first"
        return f"no: it is filled and begins at {begin}: {why}"
    if one is not None and is_short(one, broker):
        return f"no: its own retention deleted it: it begins at {begin}"
    return f"no: its log begins at {begin}"


def _loss_text(case: SegmentCase, broker: BrokerDescription, loss: ReplicaLoss) -> str:
    return explain_loss(
        loss,
        case.settings,
        case.now_ms,
        until_ms=case.maintenance.get(broker.broker_id, 0),
        missing=max(1, len(case.losses)),
    )


def _standing_text(found: LossStanding, loss: ReplicaLoss, now_ms: int) -> str:
    if found.phase is LossPhase.DUE:
        return f"due: {found.why}; {loss.why or 'it is not handed on yet'}"
    left_s = _seconds(found.at_ms - now_ms)
    if found.phase is LossPhase.MAINTENANCE:
        return f"{found.why}, for {left_s} s"
    return f"{found.why}, {left_s} s of it are left"


def _ago(case: SegmentCase, at_ms: int) -> str:
    return f"{max(0, case.now_ms - at_ms) // 1000} s"


def _seconds(ms: int) -> int:
    """
    Rounds up: at zero it is over.
    """
    return -(-ms // 1000)
