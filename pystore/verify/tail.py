"""
Decides from the scans of the segments where the log ends and which faults are damage.

The rules and facts are those of an opening (`pystore.recovery.torn_tail`): a fault
below the bound is damage; above it the zeros of lost sectors tell a torn tail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pystore.bindings.ffi import Stop
from pystore.damage.segment_walk import SegmentReport
from pystore.fs.layout import COMMIT_LOG, segment_path
from pystore.recovery.torn_tail import (
    STALE,
    Bound,
    Corrupt,
    Evidence,
    Findings,
    Stale,
    Torn,
    decide,
)
from pystore.verify.end_facts import EndFacts
from pystore.verify.report import Basis, Damage

__all__ = ["EndDecision", "decide_end"]


_BASES: dict[Stop, tuple[Basis, ...]] = {
    Stop.BODY: ("checksum",),
    Stop.PROPERTY: ("checksum", "neighbours"),
    Stop.OFFSET: ("embedded offset",),
    Stop.ZERO: ("stored bound",),
    Stop.UNREADABLE: ("system",),
}


@dataclass(frozen=True, slots=True)
class EndDecision:
    """
    The end of the log and the damage below it.

    Attributes:
        end_offset: the end of the log.
        records: the number of whole records below it.
        damages: the damage, by offset.
        torn_reason: why the bytes after the end are not records; empty if there are
            none, or if it is unknown because of damage.
    """

    end_offset: int
    records: int
    damages: list[Damage]
    torn_reason: str = ""


@dataclass(frozen=True, slots=True)
class _Fault:
    """
    An offset where the records of a segment end too early, or seem to.
    """

    offset: int
    stop: Stop
    text: str
    skipped_bytes: int
    records_before: int
    record_end: int | None
    base_offset: int
    is_torn: bool = False


def _faults(reports: Sequence[SegmentReport], segment_size: int) -> list[_Fault]:
    """
    Returns every bad record and every early end of a segment, by ascending offset.
    """
    faults, records = [], 0
    for report in reports:
        for fault in report.faults:
            before = records + fault.records_before
            faults.append(
                _Fault(
                    *fault[:4],
                    before,
                    fault.record_end,
                    report.base_offset,
                    fault.is_torn,
                )
            )
        has_stopped_bad = (
            report.faults and report.faults[-1].offset == report.end_offset
        )
        if not report.is_full and not has_stopped_bad:
            end = report.base_offset + segment_size
            faults.append(
                _Fault(
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
    return faults


def decide_end(
    root: Path,
    reports: Sequence[SegmentReport],
    *,
    min_offset: int,
    segment_size: int,
    bound: Bound | Evidence,
    facts: EndFacts,
) -> EndDecision:
    """
    Separates damage from a torn tail.

    Args:
        root: the directory of the store.
        reports: the scans of its segments, by ascending offset.
        min_offset: the start of the log.
        segment_size: the size of each segment.
        bound: no record below it may be bad.
        facts: behind the faults.
    """
    damages: list[Damage] = []
    faults = _faults(reports, segment_size)
    stop_at = faults[0].offset if faults else reports[-1].end_offset if reports else 0
    stale = facts.first_stale(stop_at)
    if stale is not None:
        verdict = decide(Findings(stale, Stop.ZERO, stale, is_stale=True), bound)
        if not isinstance(verdict, Corrupt):
            # The records are counted up to the segment: those above are no part.
            count = sum(one.records for one in reports if one.end_offset <= stale)
            return EndDecision(verdict.end, count, damages, STALE)
    for fault in faults:
        named, later, behind = facts.behind(fault.offset, fault.stop)
        found = Findings(
            fault.offset,
            fault.stop,
            fault.record_end,
            named,
            later,
            behind=behind,
            is_torn=fault.is_torn,
        )
        verdict = decide(found, bound)
        if not isinstance(verdict, Corrupt):
            reason = verdict.reason if isinstance(verdict, Torn | Stale) else ""
            return EndDecision(verdict.end, fault.records_before, damages, reason)
        reason = fault.text or verdict.reason
        path = segment_path(root, fault.base_offset)
        damages.append(
            Damage(
                str(path),
                fault.offset,
                reason,
                fault.skipped_bytes,
                "log",
                _BASES.get(fault.stop, ("record form",)),
                fault.offset + fault.skipped_bytes,
            )
        )
    if reports and not reports[-1].is_full:
        # Damaged up to the early end of the last segment; more may be missing.
        end = reports[-1].end_offset
        damages += _missing_behind(root, reports[-1].base_offset + segment_size, bound)
        return EndDecision(end, sum(one.records for one in reports), damages)
    return _behind_all(root, reports, min_offset, bound, damages)


def _missing_behind(
    root: Path, segments_end: int, bound: Bound | Evidence
) -> list[Damage]:
    """
    The segments that are missing between the last one and a stored end.
    """
    wanted = bound.offset if isinstance(bound, Bound) else bound.bound
    if wanted <= segments_end:
        return []
    name = bound.name if isinstance(bound, Bound) else bound.stored_name
    reason = f"no segment is here, but the {name or 'stored end'} is {wanted}"
    return [
        Damage(
            str(root / COMMIT_LOG),
            segments_end,
            reason,
            wanted - segments_end,
            "log",
            ("stored bound",),
            wanted,
        )
    ]


def _behind_all(
    root: Path,
    reports: Sequence[SegmentReport],
    min_offset: int,
    bound: Bound | Evidence,
    damages: list[Damage],
) -> EndDecision:
    """
    Decides, when every segment is full, whether one more segment is missing.
    """
    findings = Findings(min_offset, Stop.LAST)
    if reports:
        last = reports[-1]
        findings = Findings(
            last.end_offset, Stop.LAST, last.record_end, last_base=last.base_offset
        )
    verdict = decide(findings, bound)
    if isinstance(verdict, Corrupt):
        path = str(root / COMMIT_LOG)
        wanted = bound.offset if isinstance(bound, Bound) else bound.bound
        missing = max(0, wanted - verdict.offset)
        damages.append(
            Damage(
                path,
                verdict.offset,
                verdict.reason,
                missing,
                "log",
                ("stored bound",),
                verdict.offset + missing,
            )
        )
    return EndDecision(verdict.end, sum(one.records for one in reports), damages)
