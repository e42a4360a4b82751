"""
Finds ends of records, where a batch of a stream may end.

The core walks the headers of the records. A walk begins at a known record, or at the
segment's first byte if that is nearer, so no header is read twice.
"""

from __future__ import annotations

from typing import NamedTuple

from pystore.bindings.row import NO_CHECK, Stop
from pystore.core.log_reader import LogReader
from pystore.core.results import Cursor
from pystore.core.resync import next_record

__all__ = ["WalkStep", "first_from", "last_below", "walk"]

_ROWS = 8192


class WalkStep(NamedTuple):
    """
    The result of a walk.

    Attributes:
        offset: start of the next record.
        record: start of the last record below ``offset``; ``None``: not known.
        records: number of records that were walked.
    """

    offset: int
    record: int | None
    records: int


def last_below(log: LogReader, start: int, top: int, end: int) -> WalkStep:
    """
    Returns the end of the last record that ends at or below *top*.

    Only the newest segment with such a record is walked, so ``records`` does not count
    all records from *start* on.

    Args:
        log: open for reading.
        start: of a record.
        top: any offset up to *end*.
        end: of the log, and of its last record.
    """
    size = log.ends().segment_size
    while start < top:
        at = max(start, _segment_end(log, top - 1) - size)
        found = walk(log, at, top, end)
        if found.offset > at:
            return found
        top = at  # only a blank record, or a record that ends above the top
    return WalkStep(start, None, 0)


def first_from(log: LogReader, offset: int, end: int) -> int:
    """
    Returns the start of the first record at or above *offset*, at most *end*.

    An offset in an ill range stays as it is: the task that reads it reports the rest
    of the range.
    """
    ends = log.ends()
    offset = max(offset, ends.min_offset)
    if offset >= end:
        return end
    base = _segment_end(log, offset) - ends.segment_size
    below = walk(log, base, offset, end).offset
    if below == offset:
        return offset
    one = walk(log, below, end, end, 1)
    if one.record is None:
        found = end
    else:
        found = one.record if one.record >= offset else one.offset
    if any(offset < ill.end <= found for ill in log.ill()):
        return offset
    return found


def walk(
    log: LogReader, start: int, top: int, end: int, records: int | None = None
) -> WalkStep:
    """
    Walks over the records that end at or below *top*.

    Damage is skipped if the next record can be found, or if the segment or the log
    ends at or below *top*. The task that reads the damage reports it.

    Args:
        log: open for reading.
        start: of a record.
        top: any offset up to *end*.
        end: of the log, and of its last record.
        records: most records to walk; ``None``: all.
    """
    at, step = start, WalkStep(start, None, 0)
    while at < top and (records is None or step.records < records):
        segment_end = _segment_end(log, at)
        left = None if records is None else records - step.records
        found, step = _scan(log, at, min(top, segment_end), left, step)
        if left is not None and step.records == records:
            break
        if found.stop == Stop.LIMIT:
            if segment_end >= top:
                break
            at = segment_end
            continue
        stop = min(segment_end, end)
        behind = stop
        if found.stop is not Stop.UNREADABLE:
            behind = next_record(log, found, stop) or stop
        if found.stop == Stop.LAST or behind > top:
            break
        at, step = behind, WalkStep(behind, None, step.records)
    return step


def _scan(
    log: LogReader, at: int, stop: int, left: int | None, step: WalkStep
) -> tuple[Cursor, WalkStep]:
    """
    Walks within one segment.
    """
    if left is None:
        found = log.scan(at, stop, NO_CHECK).finish()
        if found.record_start is not None:
            count = step.records + found.records
            step = WalkStep(found.record_end, found.record_start, count)
        return found, step
    scan = log.scan(at, stop, NO_CHECK, rows=min(left, _ROWS))
    for rows in scan:
        last = rows[min(left, len(rows)) - 1]
        offset, count = int(last["offset"]), min(left, len(rows))
        step = WalkStep(offset + int(last["size"]), offset, step.records + count)
        left -= count
        if not left:
            break
    return scan.cursor, step


def _segment_end(log: LogReader, offset: int) -> int:
    """
    The end of the segment that holds an offset.
    """
    ends = log.ends()
    first, size = ends.min_offset, ends.segment_size
    return first + ((offset - first) // size + 1) * size
