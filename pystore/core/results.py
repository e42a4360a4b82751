"""
Results of the calls of a log: plain values, copied from the core.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from pystore.bindings.ffi import NO_OFFSET, Stop
from pystore.stored_names import public

if TYPE_CHECKING:
    from pystore._core import CData

__all__ = [
    "Appended",
    "Block",
    "ClockState",
    "Cursor",
    "CutReport",
    "Ends",
    "IllRange",
    "StartReport",
    "ends_of",
]

_ENDS = struct.Struct("=QQQQQQQQII")
_tuple_new = tuple.__new__


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


def ends_of(memory: CData) -> Ends:
    """
    Returns the ends that the core has filled in.

    Args:
        memory: of a ``ps_ends``.
    """
    words = _ENDS.unpack(memory)
    last, segments, poisoned = words[7:]
    last_offset = None if last == NO_OFFSET else last
    return _tuple_new(Ends, (*words[:7], last_offset, segments, poisoned != 0))


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
        unproved: how many of them no property CRC proves.
        blanks: the number of blank records.
        text: the problem in one line; empty: no problem.
        differs: how many whole records have a property CRC that differs.
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
    differs: int = 0


@public
class Block(NamedTuple):
    """
    A range of the log; a reference to ``view`` or a slice keeps it mapped.

    No call of pystore makes a file of the log shorter. If another program does, or the
    disk loses the bytes, touching the view there ends the process with SIGBUS: take
    copies (``blocks(is_copied=True)``) of a store that others may change.
    """

    offset: int
    view: memoryview


@public
class IllRange(NamedTuple):
    """
    Bytes of a log that cannot be read, all of one segment.

    Attributes:
        path: of the segment's file.
        offset: of the first byte.
        end: exclusive.
        reason: why, and what to do, in one line.
        errno: of the system, if it did not open the file: its bytes may be whole;
            ``None``: the bytes are not there.
    """

    path: str
    offset: int
    end: int
    reason: str
    errno: int | None = None


@public
class ClockState(NamedTuple):
    """
    The clock that stamps records (A21); all times in ms.

    Attributes:
        store_ms: the newest store time, since 1970; new records have none below.
        now_ms: the wall clock, as far as ``CLOCK_BOOTTIME`` confirms it, since 1970.
        ahead_ms: how far the wall clock is ahead of that: a step forward that is not
            stamped on records; 0: none.
    """

    store_ms: int
    now_ms: int
    ahead_ms: int


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
