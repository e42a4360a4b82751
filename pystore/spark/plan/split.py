"""
The part of one segment that a task reads, as plain values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pystore.errors import CutError, OffsetOutOfRange, PystoreError
from pystore.fs.layout import segment_path

__all__ = ["Damaged", "Split", "past_end_text", "segment_gone", "unwritten_text"]


@dataclass(frozen=True, slots=True)
class Split:
    """
    The records of one segment that begin within a range.

    The task finds the first record by a scan from the segment's first byte, or from
    ``record_at``. So the driver need not look for records.

    Attributes:
        store: root of the store, the same path on every host.
        base: base offset of the segment.
        segment_size: of every segment of the store, in bytes.
        from_offset: start of the range.
        to_offset: end of the range, exclusive.
        end: of the log when the split was planned: nothing above is read.
        epochs: known ranges ``(epoch, start, end)``, ascending.
        record_at: offset of a record at or below ``from_offset``; ``None``: the first
            record of the segment.
        generation: of the log's cuts when the split was planned, from the live page.
            A task notices a later cut by it. ``None``: there is no valid live page.
        ill: the offset from which on the segment's bytes are not there, and why;
            ``None``: they are.
    """

    store: str
    base: int
    segment_size: int
    from_offset: int
    to_offset: int
    end: int
    epochs: tuple[tuple[int, int, int], ...] = ()
    record_at: int | None = None
    generation: int | None = None
    ill: tuple[int, str] | None = None

    @property
    def lost_from(self) -> int:
        """
        The offset from which on the segment's bytes are not there, or its end.
        """
        return self.limit if self.ill is None else self.ill[0]

    @property
    def path(self) -> str:
        """
        The segment's file.
        """
        return str(segment_path(self.store, self.base))

    @property
    def first(self) -> int:
        """
        The offset at which the scan for the first record begins.
        """
        return self.base if self.record_at is None else self.record_at

    @property
    def limit(self) -> int:
        """
        The end of the segment's readable bytes.
        """
        return min(self.base + self.segment_size, self.end)


@dataclass(frozen=True, slots=True)
class Damaged:
    """
    Bytes of a segment that are no records.

    Attributes:
        offset: of the first byte in the log.
        size: number of bytes.
        text: the problem in one line.
    """

    offset: int
    size: int
    text: str


def unwritten_text(offset: int) -> str:
    """
    The text of the error that zeros are in the middle of the log.
    """
    return f"nothing was written at offset {offset}, but the log continues after it"


def past_end_text(offset: int, end: int) -> str:
    """
    The text of the error that the last record is longer than the log.
    """
    return f"record at offset {offset}: it ends above the end of the log, {end}"


def segment_gone(split: Split, bases: Sequence[int]) -> PystoreError:
    """
    Returns the error for a segment that no longer exists.

    Args:
        split: of the segment.
        bases: base offsets of the existing segments, ascending.
    """
    if bases and bases[0] <= split.base:
        return CutError(
            f"{split.path}: the log was cut below this segment before it was read: "
            "read again",
            offset=split.base,
            path=split.path,
        )
    return OffsetOutOfRange(
        f"{split.path}: the segment was deleted before it was read: start the query "
        "again, or skip the segment with failOnDataLoss=false",
        offset=split.base,
        path=split.path,
    )
