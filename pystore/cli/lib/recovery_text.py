"""
The report of an opening, as text and as JSON.
"""

from __future__ import annotations

from typing import Any

from pystore.fs.layout import segment_name
from pystore.store.report import RecoveryReport
from pystore.text import count_text

__all__ = ["opening_lines", "recovery_json", "stranded_text"]


def opening_lines(report: RecoveryReport) -> list[str]:
    """
    Returns the lines that every opening for writing shows: cuts and other changes.
    """
    lines = [
        f"another program changed the store: {reason}" for reason in report.foreign
    ]
    if report.cut_offset is not None:
        lines.append(
            f"{count_text(report.cut_bytes)} bytes were cut at offset "
            f"{report.cut_offset}: {report.cut_reason} (rule {report.rule})"
        )
    if report.stranded:
        lines.append(f"segments were removed: {stranded_text(report.stranded)}")
    return lines


def stranded_text(bases: tuple[int, ...]) -> str:
    """
    Returns the segments that are removed because they follow a missing one.
    """
    names = ", ".join(segment_name(base) for base in bases)
    return f"{names}: empty and after a missing segment (rule A2)"


def recovery_json(report: RecoveryReport) -> dict[str, Any]:
    """
    Returns the report with JSON keys.
    """
    loss = report.loss
    return {
        "clean": report.is_clean,
        "new": report.is_new,
        "foreign": list(report.foreign),
        "minOffset": report.min_offset,
        "endOffset": report.end_offset,
        "bound": report.bound,
        "boundName": report.bound_name,
        "cutOffset": report.cut_offset,
        "cutBytes": report.cut_bytes,
        "cutReason": report.cut_reason,
        "rule": report.rule,
        "damageOffset": report.damage_offset,
        "scannedBytes": report.scanned_bytes,
        "records": report.records,
        "unprovedRecords": report.unproved,
        "strandedSegments": list(report.stranded),
        "segmentsRemoved": report.segments_removed,
        "bytesZeroed": report.bytes_zeroed,
        "bytesRewritten": report.bytes_rewritten,
        "lostDirectory": None if loss is None else str(loss.directory),
        "lostBytesSaved": 0 if loss is None else loss.bytes_saved,
        "lostRecords": [] if loss is None else list(loss.records),
    }
