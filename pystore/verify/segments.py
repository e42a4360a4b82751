"""
Scans one segment: every record and every checksum.

A segment begins with a record. Therefore several threads can scan several segments, and
a damaged segment does not hide later ones. After a bad record the scan continues if
the size of the bad record leads to another record. Otherwise the start of the next
record is unknown, and the scan skips the rest of the segment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from pystore.bindings.ffi import NO_CHECK, NO_OFFSET, Check
from pystore.core.log_reader import LogReader
from pystore.core.resync import next_record
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
        log: the log that holds the segment.
        base: the base offset of the segment.
        end: the end of the segment, or of the log if that is lower.
        note: called with each array of rows.
        columns: the columns to fill in, besides those of the checks.
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
        behind = next_record(log, found, end)
        skipped = (behind or end) - found.offset
        faults.append(
            BadRecord(
                found.offset, found.stop, found.text, skipped, records, record_end
            )
        )
        if behind is None:
            break
        offset = behind
    skipped_bytes = sum(f.skipped_bytes for f in faults if f.offset < found.offset)
    return SegmentReport(
        base_offset=base,
        end_offset=found.offset,
        is_full=found.offset >= end,
        record_end=record_end,
        scanned_bytes=found.offset - base - skipped_bytes,
        row_bytes=row_bytes,
        records=records,
        unproved=unproved,
        uncovered_bytes=uncovered,
        faults=tuple(faults),
    )
