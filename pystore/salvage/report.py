"""
What a salvage took, and what it left behind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["LISTED_MAX", "LeftRange", "RejectedRecord", "SalvageReport"]

LISTED_MAX = 1000
"""So many ranges and records are listed; the rest is counted."""


class LeftRange(NamedTuple):
    """
    Bytes of the source that hold no whole record.

    Attributes:
        path: the file; it may be missing.
        offset: of the first byte, in the log.
        size: in bytes.
        reason: why, one line.
    """

    path: str
    offset: int
    size: int
    reason: str


class RejectedRecord(NamedTuple):
    """
    A whole record that the new store cannot have.

    Attributes:
        path: the file of the source.
        offset: of the record, in the log of the source.
        topic: of the record.
        queue_id: of the record.
        queue_offset: of the record.
        reason: why, one line.
    """

    path: str
    offset: int
    topic: str
    queue_id: int
    queue_offset: int
    reason: str


@dataclass(slots=True)
class SalvageReport:
    """
    The result of a salvage.

    Attributes:
        records: the number of records taken.
        unproved: how many of them no property CRC proves.
        record_bytes: their size.
        left: ranges without a whole record, by offset, at most `LISTED_MAX`.
        left_ranges: the number of all of them.
        left_bytes: their size.
        repeated: records whose queue offset an earlier record has.
        impossible: records that no consume queue can hold.
        rejected: these records, at most `LISTED_MAX`.
        end_offset: the end of the new log; 0 without a new store.
    """

    records: int = 0
    unproved: int = 0
    record_bytes: int = 0
    left: list[LeftRange] = field(default_factory=list)
    left_ranges: int = 0
    left_bytes: int = 0
    repeated: int = 0
    impossible: int = 0
    rejected: list[RejectedRecord] = field(default_factory=list)
    end_offset: int = 0

    @property
    def is_complete(self) -> bool:
        """
        Whether nothing was left behind.
        """
        return not (self.left_ranges or self.repeated or self.impossible)

    def leave(self, path: str, offset: int, size: int, reason: str) -> None:
        """
        Adds a range without a whole record.
        """
        self.left_ranges += 1
        self.left_bytes += size
        if len(self.left) < LISTED_MAX:
            self.left.append(LeftRange(path, offset, size, reason))

    def reject(self, record: RejectedRecord, *, is_repeated: bool) -> None:
        """
        Adds a record that the new store cannot have.
        """
        self.repeated += is_repeated
        self.impossible += not is_repeated
        if len(self.rejected) < LISTED_MAX:
            self.rejected.append(record)
