"""
What opening a store found and did, for people and programs.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.core.results import StartReport
from pystore.recovery.plan import RecoveryPlan
from pystore.recovery.restart import NO_RESTART, Restart
from pystore.recovery.salvage import Loss
from pystore.stored_names import public

__all__ = ["RecoveryReport", "report_of"]

_NO_WORK = StartReport(0, 0, 0)


@public
@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """
    The result of one opening. Opening for reading fills in the ends and the cut
    reason only.

    Attributes:
        is_new: the store was created, or had no ``meta/``.
        is_clean: the clean mark was valid, and nothing was scanned.
        foreign: how another program changed the store; empty if none did.
        min_offset: the offset of the first byte.
        end_offset: the end of the log.
        synced_end: the end of what was certainly durable before.
        bound: no record below this offset may be bad.
        bound_name: the source of that bound.
        cut_offset: where bytes were cut, or ``None``.
        cut_bytes: how many bytes were cut.
        cut_reason: why they were cut.
        rule: the rule of docs/crash-safety.md that decided the end.
        scanned_bytes: how many bytes were checked.
        records: how many whole records they hold.
        unproved: how many of these records have no property CRC.
        segments_removed, bytes_zeroed, bytes_rewritten: what the start of the log
            changed.
        loss: what ``accept_loss`` gave up, or ``None``.
        damage_offset: where promised bytes are bad, or ``None``.
        stranded: base offsets of segments that were removed, or will be: they hold
            no record and follow a missing segment.
        published_end: the published end that the process before left in the live page;
            ``None``: there was none.
        keeps_pages: boot and mount are those of that process: no byte of it was lost.
        is_copy: the store is a copy or a restore of the one that was written.
        is_lossy: records that a broker may have acknowledged were given up, and no
            master has admitted it since (B4).
    """

    is_new: bool = False
    is_clean: bool = False
    foreign: tuple[str, ...] = ()
    min_offset: int = 0
    end_offset: int = 0
    synced_end: int = 0
    bound: int = 0
    bound_name: str = ""
    cut_offset: int | None = None
    cut_bytes: int = 0
    cut_reason: str = ""
    rule: str = ""
    scanned_bytes: int = 0
    records: int = 0
    unproved: int = 0
    segments_removed: int = 0
    bytes_zeroed: int = 0
    bytes_rewritten: int = 0
    loss: Loss | None = None
    damage_offset: int | None = None
    stranded: tuple[int, ...] = ()
    published_end: int | None = None
    keeps_pages: bool = False
    is_copy: bool = False
    is_lossy: bool = False


def report_of(
    made: RecoveryPlan,
    work: StartReport = _NO_WORK,
    loss: Loss | None = None,
    restart: Restart = NO_RESTART,
) -> RecoveryReport:
    """
    Returns the report of an opening; without *work*, that of a dry run.

    Args:
        made: what was decided.
        work: what starting the log took.
        loss: what was given up, if promised bytes were bad.
        restart: what was found of the process before.
    """
    has_cut = made.cut_bytes > 0 or made.import_cut is not None
    return RecoveryReport(
        is_new=made.is_new,
        is_clean=made.is_clean,
        foreign=made.reasons,
        min_offset=made.min_offset,
        end_offset=made.end_offset,
        synced_end=made.synced_end,
        bound=made.bound,
        bound_name=made.bound_name,
        cut_offset=made.end_offset if has_cut else None,
        cut_bytes=made.cut_bytes,
        cut_reason=made.cut_reason,
        rule=made.rule,
        scanned_bytes=made.survey.scanned_bytes,
        records=made.survey.records,
        unproved=made.survey.unproved,
        segments_removed=work.segments_removed,
        bytes_zeroed=work.bytes_zeroed,
        bytes_rewritten=work.bytes_rewritten,
        loss=loss,
        damage_offset=None if made.corrupt is None else made.corrupt.offset,
        stranded=made.stranded,
        published_end=restart.published_end,
        keeps_pages=restart.keeps_pages,
        is_copy=restart.is_copy,
        is_lossy=restart.is_lossy,
    )
