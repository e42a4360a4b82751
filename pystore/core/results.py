"""
What the calls of a log answer: plain values, copied out of the core.
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
    What an append did.

    Attributes:
        offset: of the first record.
        end: behind the last record.
        queue_offset: of the first record.
        store_ms: of the records, ms since 1970.
        count: records.
    """

    offset: int
    end: int
    queue_offset: int
    store_ms: int
    count: int  # type: ignore[assignment]  # a tuple's method, needed by nobody


@public
class Ends(NamedTuple):
    """
    How far a log reaches, as of one moment; offsets are exclusive ends.

    Attributes:
        min_offset: the first byte that is still there.
        published_end: what readers may read.
        received_end: with the part of a record that a raw append left.
        synced_end: what survives a power cut.
        confirm_offset: what is safe on the set of replicas.
        cut_generation: rises with every cut.
        segment_size: in bytes.
        last_offset: of the last record, as far as the writer knows it.
        segments: how many there are.
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
    Where a scan stands, and what it has found so far.

    Attributes:
        offset: where to go on, or the bad record.
        stop: why the scan came back.
        record_start: the last whole record, or ``None``.
        record_end: its end, or where the scan began.
        record_ms: its store time, or 0.
        records: whole records.
        unproved: those of them without a property CRC.
        blanks: blank records.
        text: what is wrong, one line; empty where nothing is.
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
    A range of the log, readable as long as ``view`` or a slice of it lives.
    """

    offset: int
    view: memoryview


class StartReport(NamedTuple):
    """
    What making a log ready for appends took.

    Attributes:
        segments_removed: segments that began above the end.
        bytes_zeroed: length of the range above the end that was made zero.
        bytes_rewritten: length of the unsynced range that was written again.
    """

    segments_removed: int
    bytes_zeroed: int
    bytes_rewritten: int


@public
class CutReport(NamedTuple):
    """
    What a cut took away.
    """

    bytes_cut: int
    segments_removed: int
