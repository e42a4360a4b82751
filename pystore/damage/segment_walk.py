"""
Walks over one segment: every record and every checksum, also behind damage.

A segment begins with a record. Therefore several threads can walk over several
segments. Behind a bad record the walk goes on at the next record that proves its
place, so that each damage is found, and none hides the bytes behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pystore.bindings.ffi import NO_CHECK, NO_OFFSET, Check, Stop
from pystore.core.log_reader import LogReader
from pystore.core.results import Cursor
from pystore.core.resync import next_record
from pystore.damage.copied_crc import CopiedCrcCheck
from pystore.damage.torn_record import torn_records

__all__ = ["CHECKS", "BadRecord", "SegmentReport", "walk_segment"]

CHECKS = Check.BODY | Check.PROPERTY | Check.PASS_COPIED | Check.OFFSET


class BadRecord(NamedTuple):
    """
    A bad range of a segment, not yet judged as damage or as a torn tail.

    Attributes:
        offset: the offset of the record.
        stop: why it is bad.
        text: the reason as one line.
        skipped_bytes: the bytes from there to where the walk could continue.
        records_before: the number of whole records before it in the segment.
        record_end: the end of the last of them; ``None`` if there is none.
        is_torn: whether every check passed, but a sector of the record is lost.
    """

    offset: int
    stop: Stop
    text: str
    skipped_bytes: int
    records_before: int
    record_end: int | None
    is_torn: bool = False


@dataclass(frozen=True, slots=True)
class SegmentReport:
    """
    The walk over one segment from its base.

    Attributes:
        base_offset: the base offset of the segment.
        end_offset: where the walk ended.
        is_full: whether it ended at the end of the segment.
        scanned_bytes: the bytes that were checked.
        row_bytes: the bytes of whole records.
        records: the number of whole records.
        unproved: how many of them no property CRC proves.
        uncovered_bytes: the bytes of these records that no checksum covers.
        record_end: the end of the last whole record; ``None`` if there is none.
        faults: the bad ranges, ascending.
    """

    base_offset: int
    end_offset: int
    is_full: bool
    record_end: int | None
    scanned_bytes: int
    row_bytes: int
    records: int
    unproved: int
    uncovered_bytes: int
    faults: tuple[BadRecord, ...]

    @property
    def is_empty(self) -> bool:
        """
        Whether the segment holds no bytes.
        """
        return self.end_offset == self.base_offset and not self.faults


class _Walk:
    """
    The state of one walk.
    """

    def __init__(
        self, log: LogReader, note: Callable[[NDArray[Any]], None], torn_from: int
    ) -> None:
        self._log = log
        self._note = note
        self._torn_from = torn_from
        self._copied = CopiedCrcCheck()
        self._held: NDArray[Any] | None = None
        self.records = self.unproved = self.row_bytes = 0
        self.record_end: int | None = None
        self.faults: list[BadRecord] = []

    def rows(self, rows: NDArray[Any]) -> None:
        self.row_bytes += int(rows["size"].sum())
        if int(rows["offset"][-1]) >= self._torn_from:
            self._find_torn(rows[rows["offset"] >= self._torn_from])
        damaged = self._convict(self._copied.add(rows))
        is_plain = self._held is None and not damaged and not self._copied.waiting
        if not is_plain:
            rows = self._without(rows, damaged)
        if len(rows):
            self._note(rows)

    def _without(self, rows: NDArray[Any], damaged: list[int]) -> NDArray[Any]:
        """
        The rows without damaged records. Those at the end that are not decided yet are
        held back until the next rows.
        """
        if self._held is not None:
            rows = np.concatenate((self._held, rows))
        rows = rows[~np.isin(rows["offset"].astype(np.int64), damaged)]
        waiting = [offset for offset, _ in self._copied.waiting]
        is_held = np.isin(rows["offset"].astype(np.int64), waiting)
        self._held = rows[is_held] if waiting else None
        return rows[~is_held]

    def _find_torn(self, rows: NDArray[Any]) -> None:
        for offset in torn_records(self._log, rows):
            text = f"record at offset {offset}: zeros stand where it ends"
            size = int(rows["size"][rows["offset"] == offset][0])
            self.faults.append(
                BadRecord(
                    offset, Stop.ZERO, text, size, self.records, offset, is_torn=True
                )
            )

    def scanned(self, found: Cursor) -> None:
        self.records += found.records
        self.unproved += found.unproved
        if found.record_start is not None:
            self.record_end = found.record_end

    def gap(self, found: Cursor, end: int) -> None:
        self.faults.append(
            BadRecord(
                found.offset,
                found.stop,
                found.text,
                end - found.offset,
                self.records,
                self.record_end,
            )
        )

    def finish(self) -> tuple[BadRecord, ...]:
        damaged = self._convict(self._copied.finish())
        if self._held is not None:
            rows = self._without(self._held[:0], damaged)
            if len(rows):
                self._note(rows)
        return tuple(sorted(self.faults))

    def _convict(self, places: list[tuple[int, int]]) -> list[int]:
        # The scan counted them as whole, without a CRC that proves them.
        self.records -= len(places)
        self.unproved -= len(places)
        for offset, size in places:
            text = (
                f"record at offset {offset}: its property CRC differs, and those of "
                "the records around it hold"
            )
            self.faults.append(
                BadRecord(offset, Stop.PROPERTY, text, size, self.records, offset)
            )
        return [offset for offset, _ in places]


def walk_segment(
    log: LogReader,
    base: int,
    end: int,
    note: Callable[[NDArray[Any]], None],
    *,
    uncovered: Callable[[NDArray[Any]], int],
    columns: Check = NO_CHECK,
    torn_from: int = NO_OFFSET,
) -> SegmentReport:
    """
    Checks every record of a segment.

    Args:
        log: the log that holds the segment.
        base: the base offset of the segment.
        end: the end of the segment, or of the log if that is lower.
        note: called with each array of rows.
        uncovered: counts the bytes of rows that no checksum covers.
        columns: the columns to fill in, besides those of the checks.
        torn_from: the offset above which whole records may have lost a sector.

    Raises:
        StorageError: reading failed.
    """
    offset, uncovered_bytes, skipped = base, 0, 0
    walk = _Walk(log, note, torn_from)
    while True:
        scan = log.scan(offset, end, CHECKS | columns)
        for rows in scan:
            uncovered_bytes += uncovered(rows)
            walk.rows(rows)
        found = scan.cursor
        walk.scanned(found)
        if found.stop not in _GAPS and not found.stop.is_bad:
            break
        behind = next_record(log, found, end)
        if behind is None and not found.stop.is_bad:
            break  # nothing but zeros, or no record at all
        walk.gap(found, end if behind is None else behind)
        if behind is None:
            break
        skipped += behind - found.offset
        offset = behind
    # Records at the end may count as damaged only now.
    faults = walk.finish()
    return SegmentReport(
        base_offset=base,
        end_offset=found.offset,
        is_full=found.offset >= end,
        record_end=walk.record_end,
        scanned_bytes=found.offset - base - skipped,
        row_bytes=walk.row_bytes,
        records=walk.records,
        unproved=walk.unproved,
        uncovered_bytes=uncovered_bytes,
        faults=faults,
    )


_GAPS = (Stop.ZERO,)
"""Stops at the end of a log, behind which lost sectors may hide whole records."""
