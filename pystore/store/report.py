"""
What opening a store found and did, for people and programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pystore.stored_names import public

if TYPE_CHECKING:
    from pystore.recovery.plan import RecoveryPlan
    from pystore.recovery.salvage import Loss
    from pystore.store.writer import Writer

__all__ = ["RecoveryReport", "report_of", "report_of_plan"]


@public
@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """
    One opening.

    Attributes:
        is_new: the store was made, or had no ``meta/``.
        is_clean: the clean mark held; nothing was scanned.
        foreign: how another program changed the store; empty: none was here.
        min_offset: the first byte.
        end_offset: where the log ends.
        synced_end: what was durable for sure before.
        bound: nothing below it may be bad.
        bound_name: whose bound that is.
        cut_offset: where bytes were cut, or ``None``.
        cut_bytes: how many.
        cut_reason: why.
        rule: of docs/crash-safety.md, that decided the end.
        scanned_bytes: what was checked.
        records: whole records in it.
        unproved: those without a property CRC.
        segments_removed, bytes_zeroed, bytes_rewritten: what starting took.
        loss: what was given up, or ``None``.
        damage_offset: where promised bytes are bad, or ``None``.
        stranded: base offsets of segments that were removed, or will be: they hold
            nothing and stand behind a missing one.
    """

    is_new: bool
    is_clean: bool
    foreign: tuple[str, ...]
    min_offset: int
    end_offset: int
    synced_end: int
    bound: int
    bound_name: str
    cut_offset: int | None
    cut_bytes: int
    cut_reason: str
    rule: str
    scanned_bytes: int
    records: int
    unproved: int
    segments_removed: int = 0
    bytes_zeroed: int = 0
    bytes_rewritten: int = 0
    loss: Loss | None = None
    damage_offset: int | None = None
    stranded: tuple[int, ...] = ()


def report_of_plan(made: RecoveryPlan) -> RecoveryReport:
    """
    The report of a dry run.
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
        damage_offset=None if made.corrupt is None else made.corrupt.offset,
        stranded=made.stranded,
    )


def report_of(writer: Writer) -> RecoveryReport:
    """
    The report of an opening.
    """
    dry = report_of_plan(writer.plan)
    fields = {name: getattr(dry, name) for name in dry.__slots__}
    fields["segments_removed"] = writer.report.segments_removed
    fields["bytes_zeroed"] = writer.report.bytes_zeroed
    fields["bytes_rewritten"] = writer.report.bytes_rewritten
    fields["loss"] = writer.loss
    return RecoveryReport(**fields)
