"""
What stands behind the stop of a scan: whole records, lost sectors, queue offsets.

These facts tell a torn tail from damage (A6), and the bytes that a truncation left from
records that belong to the log (A8).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pystore.bindings.ffi import Check, Stop
from pystore.consumequeue.queue import ConsumeQueue
from pystore.consumequeue.queues import ConsumeQueues
from pystore.damage.zeros import SECTOR, has_lost_sector, has_unwritten_end
from pystore.message.constants import NO_ENTRY
from pystore.recovery.segments import Segments, data_end, search_end

__all__ = ["NOTHING", "Behind", "look_behind"]

_SIZED = (Stop.BODY, Stop.PROPERTY, Stop.OFFSET)
_SAMPLE = 64
"""Records behind the stop whose queue offsets are compared."""

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Behind:
    """
    The facts behind the stop of a scan.

    Attributes:
        record: the next record that proves its place; ``None``: there is none.
        has_lost_sector: whether a sector of the bad bytes is zero.
        continues: whether the records behind may follow those before, by their queue
            offsets; bytes that a truncation left repeat queue offsets.
        data_end: the end of the last nonzero byte in the segment of the stop.
        ends_inside: whether the bytes of the log end inside the bad record.
        has_unwritten_end: whether a sector of the bad bytes ends in zeros.
    """

    record: int | None = None
    has_lost_sector: bool = False
    continues: bool = True
    data_end: int = 0
    ends_inside: bool = False
    has_unwritten_end: bool = False


NOTHING = Behind()


def look_behind(
    segments: Segments, offset: int, stop: Stop, queues: ConsumeQueues | None = None
) -> Behind:
    """
    Collects the facts behind a stop.

    Args:
        segments: of the log.
        offset: where a scan stopped.
        stop: why; not ``ROWS`` nor ``LIMIT``.
        queues: to compare queue offsets with; ``None``: they are not compared.
    """
    base = segments.base_of(offset)
    if stop in (Stop.LAST, Stop.UNREADABLE) or offset >= segments.end:
        return Behind(data_end=offset)
    written = data_end(segments, offset)
    end = base + segments.segment_size
    record, claimed = _next_in_segment(segments, offset, stop, written)
    gap_end = record if record is not None else max(written, min(claimed, end))
    if record is None:
        record = _next_base(segments, offset)
        if record is not None and written <= offset:
            gap_end = end
    stop_at = min(end, -(-gap_end // SECTOR) * SECTOR)
    has_lost = gap_end > offset and has_lost_sector(
        _blocks(segments, offset, stop_at), offset, gap_end
    )
    has_end = not has_lost and has_unwritten_end(
        _blocks(segments, offset, stop_at), offset, gap_end
    )
    continues = True
    if record is not None and queues is not None:
        continues = _continues(segments, queues, offset, record)
    ends_inside = record is None and written > offset and claimed > written
    return Behind(record, has_lost, continues, written, ends_inside, has_end)


def _next_in_segment(
    segments: Segments, offset: int, stop: Stop, written: int
) -> tuple[int | None, int]:
    """
    The next record up to the last nonzero byte, and the end that the bad record
    claims.
    """
    log, claimed = segments.log, offset
    if stop is not Stop.ZERO:
        claimed += int.from_bytes(segments.raw(offset, 4), "big")
    if written <= offset:
        return None, claimed
    limit = search_end(segments, offset, written)
    is_sized = stop in _SIZED and claimed < written
    if is_sized and log.resync(claimed, limit) == claimed:
        return claimed, claimed
    return log.resync(offset + 1, limit), claimed


def _next_base(segments: Segments, offset: int) -> int | None:
    for base in segments.bases:
        if base > offset:
            size = int.from_bytes(segments.raw(base, 4), "big")
            if size and segments.log.resync(base, base + size) == base:
                return base
    return None


def _blocks(segments: Segments, start: int, end: int) -> Iterator[memoryview]:
    at = start
    while at < end:
        size = min(end - at, _CHUNK - at % _CHUNK)
        yield memoryview(segments.raw(at, size))
        at += size


def _continues(
    segments: Segments, queues: ConsumeQueues, offset: int, record: int
) -> bool:
    log = segments.log
    scan = log.scan(record, checks=Check.OFFSET | Check.TOPIC, rows=_SAMPLE)
    for row in next(scan, ()):
        if row["sys_flag"] & NO_ENTRY:
            continue
        topic = log.topic(int(row["topic_id"]))
        queue = queues.get(topic, int(row["queue_id"]))
        if queue is not None and row["queue_offset"] < _entries_below(queue, offset):
            return False
    return True


def _entries_below(queue: ConsumeQueue, offset: int) -> int:
    """
    The index of the first entry that names no record below ``offset``.
    """
    low, high = queue.first_slot, queue.max_index
    while low < high:
        middle = (low + high) // 2
        if int(queue.entries(middle, 1)[0]["offset"]) < offset:
            low = middle + 1
        else:
            high = middle
    return low
