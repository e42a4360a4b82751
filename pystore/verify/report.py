"""
What a verification found: plain values.
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
    A bad record in a segment; what it means is decided later.

    Attributes:
        offset: of the record.
        stop: why it is bad.
        text: the same as one line.
        skipped_bytes: from there to where the scan could go on.
        records_before: in the segment.
        record_end: of the last of them, ``None`` if there is none.
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
    One thing that is not as it should be.

    Attributes:
        path: the file.
        offset: in the log; ``None`` where it is about a file as a whole.
        reason: one line.
        skipped_bytes: what could not be looked at because of it.
    """

    path: str
    offset: int | None
    reason: str
    skipped_bytes: int = 0


@dataclass(frozen=True, slots=True)
class SegmentReport:
    """
    One segment, scanned from its base.

    Attributes:
        base_offset: of the segment.
        end_offset: where the scan ended.
        is_full: it ended at the segment's end.
        scanned_bytes: that were checked.
        row_bytes: of whole records.
        records: how many.
        unproved: those of them without a property CRC.
        uncovered_bytes: of them, that no checksum covers.
        record_end: of the last whole one, ``None`` if there is none.
        faults: bad records.
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
        Whether nothing was ever written to it.
        """
        return self.end_offset == self.base_offset and not self.faults


@dataclass(slots=True)
class QueueReport:
    """
    The consume queues against the log.

    Attributes:
        queues: how many there are.
        entries: that name a record of the log as it is.
        missing: records whose entries are not written yet: queues follow the log.
        damages: entries that name something else.
    """

    queues: int = 0
    entries: int = 0
    missing: int = 0
    damages: list[Damage] = field(default_factory=list)


@dataclass(slots=True)
class StoreReport:
    """
    One store.

    Attributes:
        path: of the store.
        min_offset: its first byte.
        end_offset: where the log ends, or would after an opening.
        segments: how many were scanned.
        records: whole ones.
        scanned_bytes: of the log, that were checked.
        seconds: it took.
        unproved: records without a property CRC.
        uncovered_bytes: of them, that no checksum covers.
        seals: that were compared with their segments.
        queues: the consume queues.
        damages: everything bad, by offset.
        torn_bytes: that a crash left behind the end; opening cuts them.
        torn_reason: why they are no records.
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
        Damaged, torn (only behind the end, as a crash leaves it) or whole.
        """
        if self.damages:
            return "damaged"
        return "torn" if self.torn_bytes else "whole"
