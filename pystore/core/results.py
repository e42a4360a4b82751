"""
Results of the calls of a log: plain values, copied from the core.
"""

from __future__ import annotations

from typing import NamedTuple

from pystore.bindings.ffi import Stop
from pystore.stored_names import public

__all__ = [
    "Appended",
    "Block",
    "Cursor",
    "CutReport",
    "Ends",
    "StartReport",
]


@public
class Appended(NamedTuple):
    """
    The result of an append.

    Attributes:
        offset: of the first record.
        end: of the last record.
        queue_offset: of the first record.
        store_ms: of the records, ms since 1970.
        count: records.
    """

    offset: int
    end: int
    queue_offset: int
    store_ms: int
    count: int  # type: ignore[assignment]  # hides a method of tuples


@public
class Ends(NamedTuple):
    """
    The ends of a log at one moment; offsets are exclusive.

    Attributes:
        min_offset: the first byte that is not deleted.
        published_end: readers may read up to here.
        received_end: the end of the raw bytes; may be inside a record.
        synced_end: the bytes below survive a power cut.
        confirm_offset: the bytes below are safe on the set of replicas.
        cut_generation: rises with every cut.
        segment_size: in bytes.
        last_offset: of the last record; ``None``: not known.
        segments: their number.
        poisoned: whether a write-back failed.
    """

    min_offset: int
    published_end: int
    received_end: int
    synced_end: int
    confirm_offset: int
    cut_generation: int
    segment_size: int
    last_offset: int | None
    segments: int
    poisoned: bool


class Cursor(NamedTuple):
    """
    The state of a scan: its offset, and the records so far.

    Attributes:
        offset: where the scan continues, or the bad record.
        stop: why the scan stopped.
        record_start: the last whole record, or ``None``.
        record_end: its end, or the start of the scan.
        record_ms: its store time, or 0.
        records: the number of whole records.
        unproved: how many of them have no property CRC.
        blanks: the number of blank records.
        text: the problem in one line; empty: no problem.
    """

    offset: int
    stop: Stop
    record_start: int | None
    record_end: int
    record_ms: int
    records: int
    unproved: int
    blanks: int
    text: str


@public
class Block(NamedTuple):
    """
    A range of the log; a reference to ``view`` or a slice keeps it mapped.
    """

    offset: int
    view: memoryview


class StartReport(NamedTuple):
    """
    The work that made a log ready for appends.

    Attributes:
        segments_removed: the number of segments that began above the end.
        bytes_zeroed: length of the zeroed range above the end.
        bytes_rewritten: length of the unsynced range that was rewritten.
    """

    segments_removed: int
    bytes_zeroed: int
    bytes_rewritten: int


@public
class CutReport(NamedTuple):
    """
    The bytes and segments that a cut removed.
    """

    bytes_cut: int
    segments_removed: int
