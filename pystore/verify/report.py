"""
The results of a verification: plain values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pystore.bindings.ffi import Stop

__all__ = [
    "BadRecord",
    "Damage",
    "QueueReport",
    "SegmentReport",
    "StoreReport",
    "StoreVerdict",
]

StoreVerdict = Literal["whole", "torn", "damaged"]


class BadRecord(NamedTuple):
    """
    A bad record in a segment, not yet classified as damage or torn tail.

    Attributes:
        offset: the offset of the record.
        stop: why it is bad.
        text: the reason as one line.
        skipped_bytes: the bytes from there to where the scan could continue.
        records_before: the number of whole records before it in the segment.
        record_end: the end of the last of them; ``None`` if there is none.
    """

    offset: int
    stop: Stop
    text: str
    skipped_bytes: int
    records_before: int
    record_end: int | None


@dataclass(frozen=True, slots=True)
class Damage:
    """
    One damaged place of a store.

    Attributes:
        path: the file or directory.
        offset: the offset in the log; ``None`` if the whole file is meant.
        reason: one line.
        skipped_bytes: the bytes that could not be checked because of it.
    """

    path: str
    offset: int | None
    reason: str
    skipped_bytes: int = 0


@dataclass(frozen=True, slots=True)
class SegmentReport:
    """
    The scan of one segment from its base.

    Attributes:
        base_offset: the base offset of the segment.
        end_offset: where the scan ended.
        is_full: whether it ended at the end of the segment.
        scanned_bytes: the bytes that were checked.
        row_bytes: the bytes of whole records.
        records: the number of whole records.
        unproved: how many of them have no property CRC.
        uncovered_bytes: the bytes of these records that no checksum covers.
        record_end: the end of the last whole record; ``None`` if there is none.
        faults: the bad records.
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


@dataclass(slots=True)
class QueueReport:
    """
    The consume queues compared with the log.

    Attributes:
        queues: the number of consume queues.
        entries: the number of entries that name a record of the log correctly.
        missing: the number of records without an entry: the queues follow the log.
        damages: the wrong entries.
    """

    queues: int = 0
    entries: int = 0
    missing: int = 0
    damages: list[Damage] = field(default_factory=list)


@dataclass(slots=True)
class StoreReport:
    """
    The verification of one store.

    Attributes:
        path: the directory of the store.
        min_offset: the offset of the first byte.
        end_offset: the end of the log, as an opening would find it.
        segments: the number of scanned segments.
        records: the number of whole records.
        scanned_bytes: the bytes of the log that were checked.
        seconds: the duration.
        unproved: the number of records without a property CRC.
        uncovered_bytes: the bytes of these records that no checksum covers.
        seals: the number of seals compared with their segments.
        queues: the consume queues.
        damages: all damage, by offset.
        torn_bytes: the bytes that a crash left after the end; opening cuts them.
        torn_reason: why these bytes are not records.
    """

    path: str
    min_offset: int = 0
    end_offset: int = 0
    segments: int = 0
    records: int = 0
    scanned_bytes: int = 0
    seconds: float = 0.0
    unproved: int = 0
    uncovered_bytes: int = 0
    seals: int = 0
    queues: QueueReport = field(default_factory=QueueReport)
    damages: list[Damage] = field(default_factory=list)
    torn_bytes: int = 0
    torn_reason: str = ""

    @property
    def verdict(self) -> StoreVerdict:
        """
        Damaged, torn (only after the end, as a crash leaves it) or whole.
        """
        if self.damages:
            return "damaged"
        return "torn" if self.torn_bytes else "whole"
