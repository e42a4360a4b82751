"""
Reads one segment through the core.

The segment is opened as a log of its own, read-only, without a lock and without LMDB.
So a task costs the same for any number of segments.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from numpy.typing import NDArray

from pystore.bindings.row import Check, Stop
from pystore.core.log_reader import LogReader
from pystore.core.options import LogOptions
from pystore.core.results import Cursor
from pystore.core.resync import next_record
from pystore.core.segment_view import open_view
from pystore.errors import CorruptError, NotAStoreError, OffsetOutOfRange
from pystore.spark.plan.split import (
    Damaged,
    Split,
    past_end_text,
    segment_gone,
    unwritten_text,
)
from pystore.spark.scan.cut_watch import CutWatch

__all__ = ["CoreSegment"]


class CoreSegment:
    """
    The rows of a split, and their bytes. A context manager; one thread.

    Args:
        split: what to read.
        checks: what to check, and which columns to fill.
        rows: most rows in one array.

    Raises:
        NotAStoreError, StorageError: the system refused.
        OffsetOutOfRange: the segment was deleted since the split was planned.
        CutError: the log was cut below the split's end since then.
    """

    def __init__(self, split: Split, checks: Check, rows: int) -> None:
        self._split = split
        self._checks = checks
        self._rows = rows
        with ExitStack() as stack:
            self._watch = stack.enter_context(CutWatch(split))
            self.unchanged()
            self._log = self._open(stack)
            self._stack = stack.pop_all()

    def _open(self, stack: ExitStack) -> LogReader:
        split = self._split
        try:
            options = None
            if split.ill is not None:  # its file does not have the segment's size
                options = LogOptions(segment_size=split.segment_size, serves_ill=True)
            log = stack.enter_context(open_view(split.store, [split.base], options))
            log.limit(split.limit)
            # A mapped segment stays readable after its file is deleted.
            log.acquire(split.base, 1)
        except (NotAStoreError, OffsetOutOfRange) as error:
            path = Path(split.path)
            if not path.exists():
                raise segment_gone(split, _bases(path.parent)) from error
            if isinstance(error, OffsetOutOfRange):
                self.unchanged()
                raise CorruptError(
                    f"{path}: the file ends before byte {split.limit - split.base}: "
                    "another program truncated it",
                    offset=split.base,
                    path=str(path),
                ) from error
            raise
        return log

    def unchanged(self) -> None:
        """
        Makes sure that the log was not cut below the split's end.

        Raises:
            CutError: it was cut since the split was planned.
        """
        self._watch.unchanged()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def topic(self, topic_id: int) -> str:
        """
        Returns the name of a row's topic.
        """
        return self._log.topic(topic_id)

    def data(self, offset: int, size: int) -> memoryview:
        """
        Returns bytes of the segment, without a copy if possible.
        """
        return self._log.acquire(offset, size)

    def pieces(self) -> Iterator[NDArray[Any] | Damaged]:
        """
        Yields rows and damaged ranges, in offset order.
        """
        split = self._split
        offset = self._start()
        while offset is not None and offset < split.to_offset:
            scan = self._log.scan(offset, split.limit, self._checks, rows=self._rows)
            for rows in scan:
                if rows["offset"][-1] >= split.to_offset:
                    yield rows[rows["offset"] < split.to_offset]
                    return
                yield rows
            found = scan.cursor
            if found.offset >= min(split.limit, split.to_offset):
                return
            offset = self._behind(found)
            size = (offset or split.limit) - found.offset
            yield Damaged(found.offset, size, self._text(found))

    def _text(self, found: Cursor) -> str:
        if found.stop == Stop.LIMIT:
            return past_end_text(found.offset, self._split.limit)
        return found.text or unwritten_text(found.offset)

    def _behind(self, found: Cursor) -> int | None:
        return next_record(self._log, found, self._split.limit)

    def _start(self) -> int | None:
        """
        The first record that begins in the range; ``None``: there is none, because
        damaged bytes cover the start. The split that holds their start reports them.
        """
        split = self._split
        offset: int | None = split.first
        while offset is not None and offset < split.from_offset:
            found = self._log.scan(offset, split.from_offset, self._checks).finish()
            if found.offset >= split.from_offset:
                return found.offset
            # A record here ends in the range.
            probe = self._log.scan(found.offset, split.limit, self._checks, rows=1)
            rows = next(probe, None)
            if rows is not None:
                offset = int(rows["offset"][0] + rows["size"][0])
            elif probe.cursor.stop.is_bad:
                offset = self._behind(probe.cursor)
            else:
                return None
        return offset


def _bases(folder: Path) -> list[int]:
    """
    The segments that are left.
    """
    return sorted(int(name) for name in os.listdir(folder) if name.isdecimal())
