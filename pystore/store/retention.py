"""
Which segments may go: by age and by size. Pure.

A segment's age is that of its last record, by its store time: a file's time of
change says when somebody copied or repaired it, RocketMQ's rule notwithstanding.
The newest segment never goes, and segments only go from the front, so one young
segment protects all behind it.

Source: RocketMQ 5.3, ``fileReservedTime`` and ``diskMaxUsedSpaceRatio``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pystore.errors import InvalidError
from pystore.stored_names import public

__all__ = ["Retention", "SegmentAge", "delete_before"]

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class SegmentAge:
    """
    One segment, as far as retention asks.

    Attributes:
        base_offset: where it begins.
        size_bytes: what its removal gives back.
        last_store_ms: the store time of its last record; ``None`` if it has none.
    """

    base_offset: int
    size_bytes: int
    last_store_ms: int | None


@public
@dataclass(frozen=True, slots=True)
class Retention:
    """
    How much to keep.

    Attributes:
        reserved_hours: ``fileReservedTime``: younger segments stay; ``None``: age is
            no reason to go.
        total_bytes_max: the size of all segments above which the oldest go, however
            young; ``None``: size is no reason to go.

    Raises:
        InvalidError: a value is negative.
    """

    reserved_hours: float | None = 72
    total_bytes_max: int | None = None

    def __post_init__(self) -> None:
        if (self.reserved_hours or 0) < 0 or (self.total_bytes_max or 0) < 0:
            raise InvalidError(f"{self}: a limit cannot be negative")


def delete_before(
    segments: Sequence[SegmentAge], retention: Retention, now_ms: int
) -> int | None:
    """
    Says what the new minimum offset is: segments that end at or below it may go.

    Remove the log's segments first, then queue files, then the epochs' prefix: a
    queue entry whose record is gone is passed over, a record without entry is lost.

    Args:
        segments: of the log, oldest first; the last is the active one.
        retention: how much to keep.
        now_ms: the time now. A clock that is behind keeps segments.

    Returns:
        The offset, or ``None`` if everything stays.

    Raises:
        InvalidError: the segments are not in order.
    """
    for before, after in pairwise(segments):
        if before.base_offset >= after.base_offset:
            raise InvalidError(
                f"segment {after.base_offset} comes after {before.base_offset}"
            )
    total = sum(segment.size_bytes for segment in segments)
    new_min, newest_ms = None, 0
    for segment, after in pairwise(segments):
        # A store time below that of an older segment is garbled or of a clock that
        # was set back: the segment is no older than the one before it. A segment
        # without a record (a lone blank) has nothing to keep.
        newest_ms = max(newest_ms, segment.last_store_ms or 0)
        if not (_is_old(newest_ms, retention, now_ms) or _is_over(total, retention)):
            break
        total -= segment.size_bytes
        new_min = after.base_offset
    return new_min


def _is_old(last_ms: int, retention: Retention, now_ms: int) -> bool:
    return retention.reserved_hours is not None and (
        now_ms - last_ms >= retention.reserved_hours * _HOUR_MS
    )


def _is_over(total_bytes: int, retention: Retention) -> bool:
    return retention.total_bytes_max is not None and (
        total_bytes > retention.total_bytes_max
    )
