"""
Records of a node as lines of JSON, up to the confirm offset and never beyond it: what
is above may still be lost.

Bytes are read as copies. A view would hold up a cut of the log, and a file that
another program makes shorter would end the process.

Any thread; each call has a buffer of its own.
"""

from __future__ import annotations

from typing import NamedTuple

from pystore.bindings.ffi import Check
from pystore.damage.segment_walk import CHECKS
from pystore.errors import OffsetOutOfRange
from pystore.message.record_lines import RecordLines
from pystore.store.store import Store

__all__ = ["ReadLines", "read_log", "read_queue"]

_ROWS = 1024
_RECORDS_MAX = 1024


class ReadLines(NamedTuple):
    """
    Lines of records, and where the next read begins.

    Attributes:
        lines: one JSON object each, without a newline, as `pystore dump` prints them.
        next_offset: in the log or in the queue, as asked; the same as before if there
            is nothing more to read.
        confirm_offset: the records end at or below it.
    """

    lines: list[bytes]
    next_offset: int
    confirm_offset: int


def read_log(store: Store, offset: int, bytes_max: int, *, bodies: bool) -> ReadLines:
    """
    Reads records in the order of the log.

    Args:
        store: open.
        offset: where a record or a segment begins.
        bytes_max: of the records; the first one is read however long it is.
        bodies: with their bodies.

    Raises:
        OffsetOutOfRange: the offset is below the log, or above its confirm offset.
        InvalidError: the offset is inside a record.
        CorruptError: a record is not whole.
        CutError: the log was cut meanwhile.
    """
    log, reader = store.log, store.log.reader
    ends = log.ends
    confirm = ends.confirm_offset
    if not ends.min_offset <= offset <= max(confirm, ends.min_offset):
        raise OffsetOutOfRange(
            f"offset {offset} is not within {ends.min_offset} and the confirm offset "
            f"{confirm}",
            offset=offset,
        )
    lines = RecordLines(bodies=bodies)
    while offset < confirm:
        segment_end = offset - offset % ends.segment_size + ends.segment_size
        end = min(confirm, segment_end)
        rows = None
        # First what is short enough, then one record that is not.
        for limit, count in ((min(end, offset + bytes_max), _ROWS), (end, 1)):
            scan = log.scan(offset, limit, CHECKS | Check.TOPIC, rows=count)
            rows = next(scan, None)
            if rows is not None and len(rows):
                break
        else:
            if end < segment_end:
                break  # the rest below the confirm offset is no whole record
            # The blank record at the end of a segment.
            offset = segment_end
            continue
        start = int(rows["offset"][0])
        until = int(rows["offset"][-1]) + int(rows["size"][-1])
        data = memoryview(reader.copy(start, until - start))
        reader.unchanged(ends.cut_generation, until)
        found = b"".join(bytes(one) for one in lines.chunks(rows, data, start))
        return ReadLines(found.split(b"\n")[:-1], until, confirm)
    return ReadLines([], offset, confirm)


def read_queue(
    store: Store,
    queue: tuple[str, int],
    offset: int | None,
    bytes_max: int,
    *,
    bodies: bool,
) -> ReadLines:
    """
    Reads records in the order of their queue.

    Args:
        store: open.
        queue: topic and queue id.
        offset: the queue offset of the first record; ``None``: that of the queue.
        bytes_max: of the records; the first one is read however long it is.
        bodies: with their bodies.

    Raises:
        OffsetOutOfRange: no such queue, or the offset is not within it.
        CorruptError: an entry or a record is wrong.
    """
    confirm = store.log.confirm_offset
    lines = RecordLines(bodies=bodies)
    first, last = store.queue_range(*queue)
    offset = first if offset is None else offset
    if not first <= offset <= last:
        raise OffsetOutOfRange(
            f"queue offset {offset} is not within {first} and {last}", offset=offset
        )
    found: list[bytes] = []
    left = bytes_max
    while offset < last and len(found) < _RECORDS_MAX:
        # One by one: entries of deleted and of filler records give none.
        for record in store.read_from(*queue, offset, 1):
            if record.end > confirm or (found and record.size > left):
                return ReadLines(found, offset, confirm)
            found.append(lines.line(record).encode())
            left -= record.size
        offset += 1
    return ReadLines(found, offset, confirm)
