"""
The whole records of a log in pieces, in the order of the log.

The walk is that of `pystore.damage.segment_walk`: behind damage it goes on at the next
record that proves its place. Memory is bounded: records are handed over in blocks.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pystore.bindings.row import Check, Stop
from pystore.core.log_reader import LogReader
from pystore.damage.segment_walk import BadRecord, walk_segment
from pystore.errors import FullError, PystoreError, StorageError
from pystore.fs.layout import segment_name
from pystore.recovery.segments import Segments, data_end
from pystore.salvage.pieces import PiecedLog, SourcePiece, open_piece
from pystore.salvage.report import SalvageReport

__all__ = ["RecordBlock", "walk_pieces"]

_BLOCK_BYTES = 8 << 20
_REFUSED = (errno.EACCES, errno.EPERM)
"""The user can change these; other files are taken as they are."""


class RecordBlock(NamedTuple):
    """
    Records that lie one behind the other.

    Attributes:
        path: the file of the source.
        rows: of ``RECORD_DTYPE``, with topic ids and tags codes.
        data: the bytes of the records, from the first one on.
        topic: returns the name of a topic id.
    """

    path: Path
    rows: NDArray[Any]
    data: memoryview
    topic: Callable[[int], str]

    @property
    def offset(self) -> int:
        """
        The offset of the first record.
        """
        return int(self.rows["offset"][0])


def walk_pieces(
    source: PiecedLog,
    take: Callable[[RecordBlock], object],
    report: SalvageReport,
    *,
    scratch: Path | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> None:
    """
    Hands every whole record over, once, and adds the ranges between to a report.

    Args:
        source: the log.
        take: called with each block; its memory is valid during the call only.
        report: gets the ranges without a whole record.
        scratch: a directory for copies of pieces that are no whole segments.
        progress: called with the bytes that are done, and their total.

    Raises:
        StorageError: the system refused.
    """
    total = sum(piece.size for piece in source.pieces)
    gaps = list(source.gaps())
    done = 0
    for piece in source.pieces:
        while gaps and gaps[0][0] < piece.start:
            _leave_gap(source, gaps.pop(0), report)
        walk = _PieceWalk(source, piece, take, report)
        try:
            walk.run(scratch)
        except PystoreError as error:
            # Of a file that cannot be read the rest is left behind.
            if walk.is_taking or isinstance(error, FullError):
                raise
            if isinstance(error, StorageError) and error.errno in _REFUSED:
                raise
            size = piece.end - walk.reached
            report.leave(str(piece.path), walk.reached, size, str(error))
        done += piece.size
        if progress is not None:
            progress(done, total)
    for gap in gaps:
        _leave_gap(source, gap, report)


def _leave_gap(source: PiecedLog, gap: tuple[int, int], report: SalvageReport) -> None:
    start, end = gap
    size = source.segment_size
    base = source.base_of(start)
    path = source.folder / segment_name(base)
    reason = "the file is missing"
    if path.exists():
        reason = "the file ends early"
    elif size is not None and end - start > size:
        reason = f"{(end - start) // size} files are missing"
    report.leave(str(path), start, end - start, reason)


class _PieceWalk:
    """
    The walk over one piece.

    Attributes:
        reached: the end of the last record that was handed over.
        is_taking: whether the caller takes a block.
    """

    def __init__(
        self,
        source: PiecedLog,
        piece: SourcePiece,
        take: Callable[[RecordBlock], object],
        report: SalvageReport,
    ) -> None:
        self._frame = source.frame(piece)
        self._piece = piece
        self._take = take
        self._report = report
        self.reached = piece.start
        self.is_taking = False

    def run(self, scratch: Path | None) -> None:
        frame, piece = self._frame, self._piece
        with open_piece(piece, frame, scratch) as (log, unread):
            for start, end in unread:
                self._leave(start, end, "the disk cannot read it")
            found = walk_segment(
                log,
                piece.start,
                frame.base + frame.size,
                partial(self._note, log),
                uncovered=_none,
                columns=Check.TOPIC | Check.TAGS,
            )
            written = _written_end(log, piece)
            for fault in found.faults:
                if not frame.is_known and _is_blank_end(log, fault, written):
                    continue
                # Without the zeros at the end of the segment.
                end = min(fault.offset + fault.skipped_bytes, written)
                reason = fault.text.removeprefix(f"record at offset {fault.offset}: ")
                self._leave(fault.offset, end, reason or "no record begins here")

    def _note(self, log: LogReader, rows: NDArray[Any]) -> None:
        for part in _parts(rows):
            start = int(part["offset"][0])
            end = int(part["offset"][-1]) + int(part["size"][-1])
            view = log.acquire(start, end - start)
            self.is_taking = True
            self._take(RecordBlock(self._piece.path, part, view, log.topic))
            self.is_taking = False
            self.reached = end

    def _leave(self, start: int, end: int, reason: str) -> None:
        if start < end:
            self._report.leave(str(self._piece.path), start, end - start, reason)


def _is_blank_end(log: LogReader, fault: BadRecord, written: int) -> bool:
    """
    Whether it is the blank record at the end of a segment whose size is not known.
    """
    if fault.stop is not Stop.BLANK or fault.offset + fault.skipped_bytes < written:
        return False
    return fault.offset + int.from_bytes(log.acquire(fault.offset, 4)) >= written


def _none(_rows: NDArray[Any]) -> int:
    return 0


def _parts(rows: NDArray[Any]) -> list[NDArray[Any]]:
    """
    Splits rows where bytes lie between records, and so that a part is no larger than a
    block, or one record.
    """
    starts = rows["offset"].astype(np.int64)
    ends = starts + rows["size"]
    edges = np.flatnonzero(starts[1:] != ends[:-1]) + 1
    parts = []
    for run in np.split(np.arange(len(rows)), edges):
        first, stop = int(run[0]), int(run[-1]) + 1
        while first < stop:
            limit = starts[first] + _BLOCK_BYTES
            last = int(np.searchsorted(ends[:stop], limit, "right"))
            last = max(last, first + 1)
            parts.append(rows[first:last])
            first = last
    return parts


def _written_end(log: LogReader, piece: SourcePiece) -> int:
    try:
        return data_end(Segments(log), piece.start)
    except (OSError, PystoreError):
        # The disk cannot read it: any byte may be something.
        return piece.end
