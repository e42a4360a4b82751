"""
Walks over some blocks of a segment: every record and every checksum in them.

A block begins within a record. So the walk begins at the first record that proves its
place in the block, and ends at the first one behind it. What a record before that
place lost, only the digest of the block shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from pystore.bindings.ffi import NO_OFFSET
from pystore.bindings.row import Proof
from pystore.core.log_reader import LogReader
from pystore.damage.segment_walk import CHECKS, SegmentReport, walk_segment
from pystore.seals import BLOCK_BYTES

__all__ = ["walk_blocks"]

_LOOK_ROWS = 16


def walk_blocks(
    log: LogReader,
    base: int,
    end: int,
    blocks: Sequence[int],
    note: Callable[[NDArray[Any]], None],
    *,
    uncovered: Callable[[NDArray[Any]], int],
    torn_from: int = NO_OFFSET,
) -> SegmentReport:
    """
    Checks the records of some blocks.

    Args:
        log: the log that holds the segment.
        base: the base offset of the segment.
        end: the end of the segment, or of the log if that is lower.
        blocks: indexes of the blocks, ascending.
        note: called with each array of rows.
        uncovered: counts the bytes of rows that no checksum covers.
        torn_from: the offset above which whole records may have lost a sector.

    Returns:
        One report of all walks. Its counts are those of the records that were checked.

    Raises:
        StorageError: reading failed.
    """
    found = SegmentReport(base, base, base >= end, None, 0, 0, 0, 0, 0, ())
    for first, above in _ranges(blocks):
        start = base + first * BLOCK_BYTES
        stop = min(base + above * BLOCK_BYTES, end)
        if start >= stop:
            break
        stop = _first_behind(log, stop, end)
        if first:
            boundary = log.resync(start, stop)
            if boundary is None:
                continue  # no record begins and ends here
            start = _first_decided(log, boundary, stop)[0]
        one = walk_segment(
            log, start, stop, note, uncovered=uncovered, torn_from=torn_from
        )
        found = _joined(found, one, is_full=one.end_offset >= end)
    return found


def _ranges(blocks: Sequence[int]) -> list[tuple[int, int]]:
    """
    Consecutive blocks as ``[first, above)``.
    """
    ranges: list[tuple[int, int]] = []
    for block in blocks:
        if ranges and ranges[-1][1] == block:
            ranges[-1] = (ranges[-1][0], block + 1)
        else:
            ranges.append((block, block + 1))
    return ranges


def _first_behind(log: LogReader, stop: int, end: int) -> int:
    """
    The end of the first record behind a block, so that the record across the border
    is checked; *stop* if no record is there.
    """
    if stop >= end:
        return stop
    boundary = log.resync(stop, min(stop + BLOCK_BYTES, end))
    return stop if boundary is None else _first_decided(log, boundary, end)[1]


def _first_decided(log: LogReader, offset: int, end: int) -> tuple[int, int]:
    """
    Start and end of the first record that needs no neighbour to be judged, from a
    boundary on. If a property CRC differs, the records on both sides decide whether it
    was copied, and one of them may stand in a block that is not read.

    A bad record is one, too: both are its offset.
    """
    scan = log.scan(offset, end, CHECKS, rows=_LOOK_ROWS)
    for rows in scan:
        plain = rows[(rows["proof"] & Proof.DIFFERS) == 0]
        if len(plain):
            start = int(plain["offset"][0])
            return start, start + int(plain["size"][0])
    return scan.cursor.offset, scan.cursor.offset


def _joined(
    one: SegmentReport, other: SegmentReport, *, is_full: bool
) -> SegmentReport:
    return replace(
        one,
        end_offset=other.end_offset,
        is_full=is_full,
        record_end=one.record_end if other.record_end is None else other.record_end,
        scanned_bytes=one.scanned_bytes + other.scanned_bytes,
        row_bytes=one.row_bytes + other.row_bytes,
        records=one.records + other.records,
        unproved=one.unproved + other.unproved,
        uncovered_bytes=one.uncovered_bytes + other.uncovered_bytes,
        faults=one.faults + other.faults,
    )
