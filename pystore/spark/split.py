"""
What one task reads: a part of one segment, told in values that travel.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Damaged", "Split", "nothing_written", "over_the_end"]


@dataclass(frozen=True, slots=True)
class Split:
    """
    The records of one segment that begin within a range.

    A record's place in the segment is found by walking there from the segment's
    first byte, so that nobody has to look for records when the work is planned.

    Attributes:
        store: the root directory, as every host has it.
        base: offset of the segment's first byte.
        segment_size: of every segment of the store, in bytes.
        from_offset: the first offset of the range.
        to_offset: behind the range.
        end: of the log when the work was planned: nothing above is read.
        epochs: ``(epoch, start, end)`` ascending, as far as it is known.
    """

    store: str
    base: int
    segment_size: int
    from_offset: int
    to_offset: int
    end: int
    epochs: tuple[tuple[int, int, int], ...] = ()

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
