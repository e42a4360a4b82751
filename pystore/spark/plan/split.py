"""
What one task reads: a part of one segment, told in values that travel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pystore.errors import CutError, OffsetOutOfRange, PystoreError
from pystore.fs.layout import segment_path

__all__ = ["Damaged", "Split", "gone", "nothing_written", "over_the_end"]


@dataclass(frozen=True, slots=True)
class Split:
    """
    The records of one segment that begin within a range.

    A record's place in the segment is found by walking there from the segment's
    first byte, so that nobody has to look for records when the work is planned; or
    from a later place, if one is known.

    Attributes:
        store: the root directory, as every host has it.
        base: offset of the segment's first byte.
        segment_size: of every segment of the store, in bytes.
        from_offset: the first offset of the range.
        to_offset: behind the range.
        end: of the log when the work was planned: nothing above is read.
        epochs: ``(epoch, start, end)`` ascending, as far as it is known.
        record_at: where a record begins at or below ``from_offset``; ``None``: only
            that one begins with the segment is known.
        generation: of the log's cuts when the work was planned, if a live page
            told it: whoever reads hears of a later cut.
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

    @property
    def first(self) -> int:
        """
        Where the walk to the first record of the range begins.
        """
        return self.base if self.record_at is None else self.record_at

    @property
    def limit(self) -> int:
        """
        Where the readable bytes of the segment end.
        """
        return min(self.base + self.segment_size, self.end)


@dataclass(frozen=True, slots=True)
class Damaged:
    """
    Bytes of a segment that are no records.

    Attributes:
        offset: of the first one.
        size: how many.
        text: what is wrong, one line.
    """

    offset: int
    size: int
    text: str


def nothing_written(offset: int) -> str:
    """
    What is wrong where the log goes on behind zeros.
    """
    return f"nothing was written at offset {offset}, but the log goes on behind it"


def over_the_end(offset: int, end: int) -> str:
    """
    What is wrong with a last record that the log's end would cut.
    """
    return f"record at offset {offset}: it reaches over the end of the log at {end}"


def gone(split: Split, bases: Sequence[int]) -> PystoreError:
    """
    Why a segment is not there that was when the work was planned.

    Args:
        split: of the segment.
        bases: of the segments that there are now, ascending.
    """
    where = str(segment_path(split.store, split.base))
    if bases and bases[0] <= split.base:
        return CutError(
            f"{where}: the log was cut below it while it was to be read: read again",
            offset=split.base,
            path=where,
        )
    return OffsetOutOfRange(
        f"{where}: the segment was deleted before it was read: read again from "
        "what is left, or pass over it with failOnDataLoss=false",
        offset=split.base,
        path=where,
    )
