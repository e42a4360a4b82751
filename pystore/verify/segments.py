"""
The scan of one segment: every record, every checksum.

A segment begins with a record, so several threads can scan several segments, and
one that is damaged does not hide those behind it. Behind a bad record the scan
goes on if the record's size still leads to another one; else nobody knows where
the next one begins, and the rest of the segment is passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from pystore.bindings.ffi import NO_CHECK, NO_OFFSET, Check
from pystore.core.log_reader import LogReader
from pystore.core.resync import following
from pystore.verify.coverage import uncovered_bytes
from pystore.verify.report import BadRecord, SegmentReport

__all__ = ["CHECKS", "scan_segment"]

CHECKS = Check.BODY | Check.PROPERTY | Check.OFFSET


def scan_segment(
    log: LogReader,
    base: int,
    end: int,
    note: Callable[[NDArray[Any]], None],
    *,
    columns: Check = NO_CHECK,
    stale_above: int = NO_OFFSET,
) -> SegmentReport:
    """
    Checks every record of a segment.

    Args:
        log: that holds it.
        base: its base offset.
        end: its end, or that of the log if it is lower.
        note: called with the rows as they come.
        columns: what to fill in the rows beyond what is checked.
        stale_above: as in ``LogReader.scan``.

    Raises:
        StorageError: reading failed.
    """
    offset, uncovered, row_bytes = base, 0, 0
    records, unproved, record_end = 0, 0, None
    faults: list[BadRecord] = []
    while True:
        scan = log.scan(offset, end, CHECKS | columns, stale_above=stale_above)
        for rows in scan:
            uncovered += uncovered_bytes(rows)
            row_bytes += int(rows["size"].sum())
            note(rows)
        found = scan.cursor
        records += found.records
        unproved += found.unproved
        if found.record_start is not None:
            record_end = found.record_end
        if not found.stop.is_bad:
            break
        behind = following(log, found, end)
        skipped = (behind or end) - found.offset
        faults.append(
            BadRecord(
                found.offset, found.stop, found.text, skipped, records, record_end
            )
        )
        if behind is None:
            break
        offset = behind
    passed_over = sum(f.skipped_bytes for f in faults if f.offset < found.offset)
    return SegmentReport(
        base_offset=base,
        end_offset=found.offset,
        is_full=found.offset >= end,
        record_end=record_end,
        scanned_bytes=found.offset - base - passed_over,
        row_bytes=row_bytes,
        records=records,
        unproved=unproved,
        uncovered_bytes=uncovered,
        faults=tuple(faults),
    )
