"""
Where a slave goes on, after it cut its log to the master's history. Pure.

Source: docs/protocol.md (K.3, CONFIRM_TRUNCATE), R100, R147, R188.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.epochs.table import NO_EPOCH
from pystore.ha.master.effects import MasterLog
from pystore.ha.wire.codes import TruncateFlag, TruncateOutcome
from pystore.ha.wire.frames import ConfirmTruncate, HandshakeSlave

__all__ = [
    "ResumePoint",
    "agree",
    "last_segment_start",
    "refusal_of_member",
    "resync_text",
]


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """
    What both sides now hold to be true.

    Attributes:
        offset: where the first block begins.
        held: what the slave holds, as its acks count it: 0 for an empty log.
        empty_end: where an empty log ends, and so what its acks say before the first
            byte; ``None``: the log is not empty.
    """

    offset: int
    held: int
    empty_end: int | None = None


def agree(
    body: ConfirmTruncate, log: MasterLog, *, is_member: bool
) -> ResumePoint | str:
    """
    Returns the agreement, or why there is none.

    Args:
        body: what the slave did, and where it stands.
        log: ours.
        is_member: whether the controller lists the slave in the set; what a member
            held may be all that is left of an acknowledged record.
    """
    match body.outcome:
        case TruncateOutcome.EMPTY:
            return _fill(body, log, is_member=is_member)
        case TruncateOutcome.NO_COMMON_POINT:
            return resync_text("no epoch is common to both logs", log)
        case TruncateOutcome.REFUSED:
            return (
                f"the slave could not cut its log at {body.point}: it is not a record "
                "end there, somebody has to look at it"
            )
        case TruncateOutcome.NOTHING_TO_CUT | TruncateOutcome.CUT:
            return _go_on(body, log)


def _fill(
    body: ConfirmTruncate, log: MasterLog, *, is_member: bool
) -> ResumePoint | str:
    if is_member and log.confirm_offset > log.min_offset:
        return (
            "the controller lists the slave in the set, and its log is empty: it is "
            "filled anew once it was removed from the set"
        )
    if body.flags & TruncateFlag.SYNC_FROM_LAST_FILE:
        start = last_segment_start(log)
    else:
        start = log.min_offset
    return _covered(ResumePoint(start, 0, body.end_offset), log)


def _go_on(body: ConfirmTruncate, log: MasterLog) -> ResumePoint | str:
    start = body.start_offset
    if not start == body.end_offset == body.point:
        return (
            f"start {start}, end {body.end_offset} and point {body.point} of the slave "
            "differ"
        )
    if start < log.min_offset:
        return resync_text(f"the slave goes on at {start}", log)
    if start > log.end_offset:
        return f"the slave goes on at {start}, this log ends at {log.end_offset}"
    entries = [entry for entry in log.epochs.entries if entry.epoch == body.epoch]
    if not entries:
        return f"epoch {body.epoch} of the consistent point is not in the table"
    first = entries[0].start_offset
    last = log.epochs.end_of(entries[0])
    if not first <= body.point <= last:
        return f"point {body.point} is not in epoch {body.epoch}: {first} to {last}"
    return _covered(ResumePoint(start, start), log)


def _covered(agreed: ResumePoint, log: MasterLog) -> ResumePoint | str:
    if log.epochs.find(agreed.offset) is None:
        return f"no epoch of the table covers {agreed.offset}: its bytes have no label"
    return agreed


def refusal_of_member(shake: HandshakeSlave, log: MasterLog) -> str | None:
    """
    Returns why a slave that acks may wait for is told no epochs; ``None``: it is.

    One that ends below our minimum has to begin anew, and what it holds may have been
    counted: it is told before it learns that it could wipe its log.

    Args:
        shake: what it says of itself.
        log: ours.
    """
    if shake.last_epoch == NO_EPOCH or shake.end_offset >= log.min_offset:
        return None
    ends = resync_text(f"the slave ends at {shake.end_offset}", log)
    return f"{ends}; it is in the set, and begins anew once it was removed from it"


def resync_text(why: str, log: MasterLog) -> str:
    """
    Returns the reason that sends a slave to wipe its log.

    Args:
        why: what of its log cannot be used.
        log: ours.
    """
    return f"resync needed: {why}, this log holds {log.min_offset} to {log.end_offset}"


def last_segment_start(log: MasterLog) -> int:
    """
    Returns where the last segment that holds a byte begins; the log's minimum if
    there is none.
    """
    last = max(log.end_offset - 1, 0)
    return max(log.min_offset, last - last % log.segment_size)
