"""
The retention policy: segments to delete, by age and by size. Pure.

The age of a segment is the store time of its last record. RocketMQ takes the
modification time of the file, which a copy or a repair changes. The newest segment
is never deleted, and segments are deleted at the front only, so a young segment
protects all segments after it.

Source: RocketMQ 5.3, ``fileReservedTime`` and ``diskMaxUsedSpaceRatio``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pystore.core.arguments import number
from pystore.errors import InvalidError, check_integers
from pystore.stored_names import public

__all__ = ["Retention", "delete_before"]

_HOUR_MS = 3_600_000


@public
@dataclass(frozen=True, slots=True)
class Retention:
    """
    A retention policy.

    Attributes:
        reserved_hours: ``fileReservedTime``: older segments are deleted; ``None``: no
            limit.
        total_bytes_max: of all segments: above it the oldest are deleted, at any age;
            ``None``: no limit.

    Raises:
        InvalidError: a value is negative, or no number.
    """

    reserved_hours: float | None = 72
    total_bytes_max: int | None = None

    def __post_init__(self) -> None:
        if self.total_bytes_max is not None:
            check_integers(total_bytes_max=self.total_bytes_max)
        if self.reserved_hours is not None:
            number("reserved_hours", self.reserved_hours)
        if (self.reserved_hours or 0) < 0 or (self.total_bytes_max or 0) < 0:
            raise InvalidError(f"{self}: a limit cannot be negative")


def delete_before(
    bases: Sequence[int],
    segment_bytes: int,
    last_ms: Callable[[int], int | None],
    retention: Retention,
    now_ms: int,
) -> int | None:
    """
    Returns the new minimum offset: segments that end at or below it may be deleted.

    Delete the segments first, then queue files, then the prefix of the epoch table: an
    entry without its record is skipped, but a record without its entry is lost.

    Args:
        bases: offsets of the segments, oldest first; the last is the active one.
        segment_bytes: the space that the deletion of one frees.
        last_ms: returns the store time of the last record of a segment, ``None`` if it
            has none. It is asked for the segments that go and for the one after them,
            and not at all without a limit of age.
        retention: the policy.
        now_ms: the time. A slow clock keeps segments.

    Returns:
        The offset, or ``None``: delete nothing.

    Raises:
        InvalidError: the segments are not in order.
    """
    total = len(bases) * segment_bytes
    new_min, newest_ms = None, 0
    for base, after in pairwise(bases):
        if base >= after:
            raise InvalidError(f"segment {after} comes after {base}")
        # A store time below that of an older segment is damaged, or the clock was set
        # back: the segment is no older than the one before it. A segment without a
        # record (only a blank) does not protect others.
        if retention.reserved_hours is not None:
            newest_ms = max(newest_ms, last_ms(base) or 0)
        if not (_is_old(newest_ms, retention, now_ms) or _is_over(total, retention)):
            break
        total -= segment_bytes
        new_min = after
    return new_min


def _is_old(last_ms: int, retention: Retention, now_ms: int) -> bool:
    return retention.reserved_hours is not None and (
        now_ms - last_ms >= retention.reserved_hours * _HOUR_MS
    )


def _is_over(total_bytes: int, retention: Retention) -> bool:
    return retention.total_bytes_max is not None and (
        total_bytes > retention.total_bytes_max
    )
