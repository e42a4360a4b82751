"""
Segments of the queue as rows of JSON, and as texts for people.
"""

from __future__ import annotations

from typing import Any

from pystore.autorecovery.dead_segment import DeadSegment
from pystore.autorecovery.mark import Missing, Priority, SegmentMark
from pystore.autorecovery.segment_key import SegmentKey
from pystore.cli.lib.durations import moment_text, since_text
from pystore.text import size_text

__all__ = [
    "PRIORITIES",
    "dead_lines",
    "dead_row",
    "mark_pairs",
    "mark_row",
    "missing_text",
]

PRIORITIES = {
    Priority.LAST_COPY: "at most one good copy",
    Priority.FEWER_THAN_ACKS: "fewer copies than acks need",
    Priority.FEWER_THAN_WANTED: "fewer copies than wanted",
    Priority.DRAIN: "its host is emptied",
    Priority.MISPLACED: "against the rule of racks",
}
"""What a priority means, for people."""


def mark_row(key: SegmentKey, mark: SegmentMark, worker: str | None) -> dict[str, Any]:
    """
    Returns a mark with JSON keys.
    """
    return {
        "segment": key.text,
        "clusterName": key.cluster,
        "brokerName": key.set_name,
        "startOffset": key.start,
        "priority": int(mark.priority),
        "bytes": mark.size,
        "missing": [_missing_row(one, mark.missing[one]) for one in mark.missing],
        "firstMillis": mark.first_ms,
        "lastMillis": mark.last_ms,
        "tries": mark.tries,
        "notBeforeMillis": mark.not_before_ms,
        "frontMillis": mark.front_ms,
        "by": mark.by,
        "worker": worker,
    }


def _missing_row(broker_id: int, one: Missing) -> dict[str, Any]:
    return {
        "brokerId": broker_id,
        "reason": one.reason.value,
        "detail": one.detail,
        "sinceMillis": one.since_ms or None,
        "blocks": list(one.blocks),
    }


def dead_row(key: SegmentKey, dead: DeadSegment) -> dict[str, Any]:
    """
    Returns a dead segment with JSON keys.
    """
    return {
        **mark_row(key, dead.mark, None),
        "evidence": dead.evidence,
        "deadMillis": dead.at_ms,
        "buriedBy": dead.by,
    }


def missing_text(mark: SegmentMark) -> str:
    """
    Returns which copies are missing: ``2 LOST, 3 CORRUPT (2 blocks)``.
    """
    texts = []
    for broker_id in sorted(mark.missing):
        one = mark.missing[broker_id]
        blocks = f" ({len(one.blocks)} blocks)" if one.blocks else ""
        texts.append(f"{broker_id} {one.reason.value}{blocks}")
    return ", ".join(texts) or "-"


def mark_pairs(
    mark: SegmentMark, worker: str | None, now_ms: int
) -> list[tuple[str, str]]:
    """
    Returns names and values of a mark, for people.
    """
    rests = mark.not_before_ms > now_ms
    pairs = [
        ("priority", f"{int(mark.priority)}, {PRIORITIES[mark.priority]}"),
        ("missing", "\n".join(_fact_text(mark, one, now_ms) for one in mark.missing)),
        ("size", size_text(mark.size) if mark.size else "unknown"),
        ("marked", f"{moment_text(mark.first_ms, now_ms)}, last by {mark.by or '-'}"),
        ("last news", moment_text(mark.last_ms, now_ms)),
        ("failed tries", str(mark.tries)),
        ("next try", moment_text(mark.not_before_ms, now_ms) if rests else "at once"),
    ]
    if mark.front_ms:
        pairs.append(("put in front", moment_text(mark.front_ms, now_ms)))
    if worker is not None:
        pairs.append(("being repaired by", worker or "unknown"))
    return pairs


def _fact_text(mark: SegmentMark, broker_id: int, now_ms: int) -> str:
    one = mark.missing[broker_id]
    parts = [f"broker {broker_id}: {one.reason.value}"]
    if one.since_ms:
        parts.append(f"for {since_text(one.since_ms, now_ms)}")
    if one.blocks:
        parts.append(f"blocks {', '.join(map(str, one.blocks))}")
    if one.detail:
        parts.append(one.detail)
    return "; ".join(parts)


def dead_lines(key: SegmentKey, dead: DeadSegment, now_ms: int) -> list[str]:
    """
    Returns the lines of a dead segment, for people: its evidence below its name.
    """
    when = since_text(dead.at_ms, now_ms)
    lines = [f"{key.text}: dead for {when}, after {dead.mark.tries} failed tries"]
    return [*lines, *(f"  {one}" for one in _evidence(dead))]


def _evidence(dead: DeadSegment) -> list[str]:
    return [one for one in dead.evidence.splitlines() if one] or ["no evidence"]
