"""
Reads a segment of an ill log: its bytes from some offset on are not there.

The rest of the segment, if there is any, is read as any other, and what is missing is
one damaged range.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Protocol, Self

from numpy.typing import NDArray

from pystore.message.constants import MAGIC_BLANK
from pystore.spark.plan.split import Damaged, Split
from pystore.spark.scan.cut_watch import CutWatch

__all__ = ["IllSegment", "Segment"]

_BLANK = struct.Struct(">II")


class Segment(Protocol):
    """
    A segment that is read, by whatever reads it.
    """

    def topic(self, topic_id: int, /) -> str:
        """
        Returns the name of a row's topic.
        """
        ...

    def data(self, offset: int, size: int, /) -> memoryview:
        """
        Returns bytes of the segment.
        """
        ...

    def pieces(self) -> Iterator[NDArray[Any] | Damaged]:
        """
        Yields rows and damaged ranges, in offset order.
        """
        ...

    def unchanged(self) -> None:
        """
        Makes sure that the log was not cut below the split's end.
        """
        ...


class IllSegment:
    """
    As `pystore.spark.scan.core_segment.CoreSegment`.

    Args:
        split: of an ill segment.
        open_rest: opens the part of the split that is there.

    Attributes:
        rest: that part; ``None``: nothing is there.
    """

    def __init__(self, split: Split, open_rest: Callable[[Split], Any]) -> None:
        self._split = split
        self._open_rest = open_rest
        self.rest: Segment | None = None
        with ExitStack() as stack:
            self._watch = stack.enter_context(CutWatch(split))
            self.unchanged()
            lost = split.lost_from
            to_offset = min(split.to_offset, lost)
            if split.from_offset < to_offset:
                part = replace(split, end=min(split.end, lost), to_offset=to_offset)
                self.rest = stack.enter_context(open_rest(part))
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def unchanged(self) -> None:
        """
        Makes sure that the log was not cut below the split's end.

        Raises:
            CutError: it was cut since the split was planned.
        """
        self._watch.unchanged()

    def topic(self, topic_id: int) -> str:
        """
        Returns the name of a row's topic.
        """
        assert self.rest is not None
        return self.rest.topic(topic_id)

    def data(self, offset: int, size: int) -> memoryview:
        """
        Returns bytes of the segment.
        """
        assert self.rest is not None
        return self.rest.data(offset, size)

    def pieces(self) -> Iterator[NDArray[Any] | Damaged]:
        """
        Yields rows and damaged ranges, in offset order. The last record of the rest may
        reach into what is missing: then the damage begins with it.
        """
        for piece in self.rest.pieces() if self.rest is not None else ():
            if isinstance(piece, Damaged) and self._is_last(piece):
                break
            yield piece
        lost = self.lost()
        if lost is not None:
            yield lost

    def lost(self) -> Damaged | None:
        """
        Returns the part of the split in which no record is there; ``None``: there is
        none, or only a blank record reaches into what is missing.
        """
        split = self._split
        if split.lost_from >= split.limit or split.from_offset >= split.to_offset:
            return None
        start = self._damage_start()
        if start is None or start >= split.to_offset:
            return None
        assert split.ill is not None
        start = max(start, split.from_offset)
        return Damaged(start, split.to_offset - start, split.ill[1])

    def _is_last(self, piece: Damaged) -> bool:
        split = self._split
        end = piece.offset + piece.size
        return split.lost_from < split.limit and end >= split.lost_from

    def _damage_start(self) -> int | None:
        """
        The offset from which on no record is there; ``None``: only a blank record
        reaches into what is missing.
        """
        split = self._split
        lost = start = split.lost_from
        if lost == split.base:
            return lost
        part = replace(
            split, from_offset=split.base, to_offset=lost, end=lost, record_at=None
        )
        with self._open_rest(part) as rest:
            for piece in rest.pieces():
                if not isinstance(piece, Damaged):
                    start = int(piece[-1]["offset"] + piece[-1]["size"])
                elif self._is_last(piece):
                    start = piece.offset
                else:
                    start = piece.offset + piece.size
            size = min(_BLANK.size, lost - start)
            head = bytes(rest.data(start, size)) if size else b""
        end = split.base + split.segment_size
        return None if head == _BLANK.pack(end - start, MAGIC_BLANK) else start
