"""
Where a slave resumes after it cut its log to the master's history. Pure.

Source: docs/protocol.md (RMQ-K.3, CONFIRM_TRUNCATE), RMQ-R100, RMQ-R147, RMQ-R188.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.epochs.table import NO_EPOCH
from pystore.ha.master.effects import MasterLog
from pystore.ha.wire.codes import SlaveFlag, TruncateOutcome
from pystore.ha.wire.frames import ConfirmTruncate, HandshakeSlave

__all__ = [
    "ResumePoint",
    "begin_of_empty",
    "find_resume_point",
    "last_segment_start",
    "refusal_of_empty",
    "refusal_of_member",
    "resync_text",
]


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """
    The position of a session that both sides agree on.

    Attributes:
        offset: where the first block begins.
        held: end of the bytes that the slave holds; 0 for an empty log.
        empty_end: where an empty log ends, which its acks name before the first byte;
            ``None``: the log is not empty.
    """

    offset: int
    held: int
    empty_end: int | None = None


def begin_of_empty(shake: HandshakeSlave, log: MasterLog) -> int:
    """
    Returns where an empty slave begins: at the minimum, or at the last segment if it
    asked for that.
    """
    if shake.flags & SlaveFlag.SYNC_FROM_LAST_FILE:
        return last_segment_start(log)
    return log.min_offset


def refusal_of_empty(log: MasterLog, *, is_member: bool) -> str | None:
    """
    Returns why an empty slave is not filled; ``None``: it is. A member may hold the
    last replica of an acknowledged record.
    """
    if not is_member or log.confirm_offset <= log.min_offset:
        return None
    return (
        "the controller lists the slave in the set, and its log is empty: remove it "
        "from the set, then it is filled again"
    )


def find_resume_point(
    body: ConfirmTruncate, log: MasterLog, begin: int | None, *, is_member: bool
) -> ResumePoint | str:
    """
    Returns the resume point, or why there is none.

    Args:
        body: the result of the slave's cut.
        log: the master's.
        begin: of which the slave got the next queue offsets; ``None``: of none.
        is_member: whether the controller lists the slave in the set; a member may
            hold the last replica of an acknowledged record.
    """
    match body.outcome:
        case TruncateOutcome.EMPTY:
            return _fill(body, log, begin, is_member=is_member)
        case TruncateOutcome.NO_COMMON_POINT:
            return resync_text("no epoch is common to both logs", log)
        case TruncateOutcome.REFUSED:
            return (
                f"the slave could not cut its log at offset {body.point}: no record "
                "ends there; check the slave's store"
            )
        case TruncateOutcome.NOTHING_TO_CUT | TruncateOutcome.CUT:
            return _go_on(body, log)


def _fill(
    body: ConfirmTruncate, log: MasterLog, begin: int | None, *, is_member: bool
) -> ResumePoint | str:
    reason = refusal_of_empty(log, is_member=is_member)
    if reason is not None:
        return reason
    start = body.start_offset
    if start != body.end_offset or (start and start != begin):
        return (
            f"the slave's empty log begins at offset {start}, and the queue offsets "
            f"that it got are of {'none' if begin is None else begin}"
        )
    if start < log.min_offset:
        return resync_text(f"the slave's empty log begins at offset {start}", log)
    return _covered(ResumePoint(start, 0, body.end_offset), log)


def _go_on(body: ConfirmTruncate, log: MasterLog) -> ResumePoint | str:
    start = body.start_offset
    if not start == body.end_offset == body.point:
        return (
            f"start {start}, end {body.end_offset} and point {body.point} of the slave "
            "differ"
        )
    if start < log.min_offset:
        return resync_text(f"the slave resumes at offset {start}", log)
    if start > log.end_offset:
        return (
            f"the slave resumes at offset {start}, the master's log ends at offset "
            f"{log.end_offset}"
        )
    entries = [entry for entry in log.epochs.entries if entry.epoch == body.epoch]
    if not entries:
        return f"epoch {body.epoch} of the consistent point is not in the epoch table"
    first = entries[0].start_offset
    last = log.epochs.end_of(entries[0])
    if not first <= body.point <= last:
        return (
            f"the consistent point {body.point} is not in epoch {body.epoch}, which "
            f"has offsets {first} to {last}"
        )
    return _covered(ResumePoint(start, start), log)


def _covered(agreed: ResumePoint, log: MasterLog) -> ResumePoint | str:
    if log.epochs.find(agreed.offset) is None:
        return f"no epoch covers offset {agreed.offset}, so its bytes have no label"
    return agreed


def refusal_of_member(shake: HandshakeSlave, log: MasterLog) -> str | None:
    """
    Returns why a slave that counts gets no epoch table; ``None``: it gets it.

    A slave that ends below the master's minimum must begin again with an empty log, and
    its bytes may have counted for acks. So the refusal comes before the slave could
    wipe its log.

    Args:
        shake: the slave's handshake.
        log: the master's.
    """
    if shake.last_epoch == NO_EPOCH or shake.end_offset >= log.min_offset:
        return None
    ends = resync_text(f"the slave's log ends at offset {shake.end_offset}", log)
    return f"{ends}; the slave is in the set: remove it, then it is filled again"


def resync_text(why: str, log: MasterLog) -> str:
    """
    Returns the reason for which a slave must be filled again.

    Args:
        why: what is wrong with its log.
        log: the master's.
    """
    return (
        f"resync needed: {why}, the master's log holds offsets {log.min_offset} to "
        f"{log.end_offset}"
    )


def last_segment_start(log: MasterLog) -> int:
    """
    Returns where the last segment with a byte begins; the log's minimum if there is
    none.
    """
    last = max(log.end_offset - 1, 0)
    return max(log.min_offset, last - last % log.segment_size)
