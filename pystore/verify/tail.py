"""
What the segments' scans mean: where the log ends, and which faults are damage.

The same rules decide as at an opening (`pystore.recovery.torn_tail`): a fault below
what was promised is damage, one above it is a torn tail, as every crash leaves it. One
thing is different: fields that no writer leaves (A6) make a record torn where the end
of a log is looked for, but they prove no damage, so they are not asked about here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pystore.bindings.ffi import Stop
from pystore.recovery.torn_tail import (
    Bound,
    Corrupt,
    Evidence,
    Findings,
    Stale,
    Torn,
    decide,
)
from pystore.verify.report import Damage, SegmentReport

__all__ = ["Judgement", "judge"]

ReadableBehind = Callable[[int], tuple[int | None, int | None]]
"""What forbids to cut at an offset: the two last fields of ``Findings``."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """
    Where the log ends and what is wrong below.

    Attributes:
        end_offset: of the log.
        records: whole ones below it.
        damages: by offset.
        torn_reason: why the bytes at the end are no records; empty: nothing is
            there, or nobody can tell because of the damage.
    """

    end_offset: int
    records: int
    damages: list[Damage]
    torn_reason: str = ""


@dataclass(frozen=True, slots=True)
class _Place:
    """
    Where a segment's records end too early, or seem to.
    """

    offset: int
    stop: Stop
    text: str
    skipped_bytes: int
    records_before: int
    record_end: int | None
    base_offset: int


def _places(reports: Sequence[SegmentReport], segment_size: int) -> list[_Place]:
    """
    Every bad record, and every segment's end that is not at its end, ascending.
    """
    places, records = [], 0
    for report in reports:
        for fault in report.faults:
            before = records + fault.records_before
            places.append(
                _Place(*fault[:4], before, fault.record_end, report.base_offset)
            )
        has_stopped_bad = (
            report.faults and report.faults[-1].offset == report.end_offset
        )
        if not report.is_full and not has_stopped_bad:
            end = report.base_offset + segment_size
            places.append(
                _Place(
                    report.end_offset,
                    Stop.ZERO,
                    "",
                    end - report.end_offset,
                    records + report.records,
                    report.record_end,
                    report.base_offset,
                )
            )
        records += report.records
    return places


def judge(
    root: Path,
    reports: Sequence[SegmentReport],
    *,
    min_offset: int,
    segment_size: int,
    bound: Bound | Evidence,
    behind: ReadableBehind,
) -> Judgement:
    """
    Tells damage from a torn tail.

    Args:
        root: of the store.
        reports: of its segments, ascending.
        min_offset: where the log begins.
        segment_size: of each segment.
        bound: below which nothing may be bad.
        behind: asked where only evidence decides.
    """
    damages: list[Damage] = []
    for place in _places(reports, segment_size):
        named, later = (
            (None, None) if isinstance(bound, Bound) else behind(place.offset)
        )
        verdict = decide(
            Findings(place.offset, place.stop, place.record_end, named, later), bound
        )
        if not isinstance(verdict, Corrupt):
            reason = verdict.reason if isinstance(verdict, Torn | Stale) else ""
            return Judgement(verdict.end, place.records_before, damages, reason)
        reason = place.text or verdict.reason
        path = root / "commitlog" / f"{place.base_offset:020d}"
        damages.append(Damage(str(path), place.offset, reason, place.skipped_bytes))
    if reports and not reports[-1].is_full:
        # Damaged up to where the last segment ends too early.
        end = reports[-1].end_offset
        return Judgement(end, sum(one.records for one in reports), damages)
    return _behind_all(root, reports, min_offset, bound, damages)


def _behind_all(
    root: Path,
    reports: Sequence[SegmentReport],
    min_offset: int,
    bound: Bound | Evidence,
    damages: list[Damage],
) -> Judgement:
    """
    Every segment is full: whether there should be one more.
    """
    findings = Findings(min_offset, Stop.LAST)
    if reports:
        last = reports[-1]
        findings = Findings(
            last.end_offset, Stop.LAST, last.record_end, last_base=last.base_offset
        )
    verdict = decide(findings, bound)
    if isinstance(verdict, Corrupt):
        path = str(root / "commitlog")
        damages.append(Damage(path, verdict.offset, verdict.reason))
    return Judgement(verdict.end, sum(one.records for one in reports), damages)
