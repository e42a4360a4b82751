"""
Dispatching: the consume queues brought to the end of the log.

Entries that may not be on disk are removed and built again from the log. A close
completes existing queues: after a clean stop a Java broker dispatches only records
above the end of the last entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystore.bindings.ffi import Check, Stop
from pystore.consumequeue.queues import ConsumeQueues
from pystore.errors import CorruptError
from pystore.fs.layout import CONSUME_QUEUE
from pystore.metastore.schema import QUEUES
from pystore.metastore.values import QueueBounds, QueueMark

if TYPE_CHECKING:
    from pystore.store.writer import Writer

__all__ = [
    "catch_up",
    "check_dispatched",
    "dispatch",
    "follow_cuts",
    "note_queues",
    "remove_queues",
    "resume_queues",
]

_ROWS = 65536
_WANTED = Check.TOPIC | Check.TAGS


def dispatch(
    writer: Writer,
    queues: ConsumeQueues,
    end: int | None = None,
    *,
    fill_gaps: bool = False,
) -> int:
    """
    Write the entry of every record up to ``end``; ``None``: to the log's end.

    Returns:
        The number of written entries.

    Raises:
        CorruptError: entries are missing below.
        StorageError: the system refused; dispatch again later.
    """
    follow_cuts(writer, queues)
    log = writer.log
    ends = log.ends()
    start = max(queues.dispatched_end, ends.min_offset)
    end = ends.published_end if end is None else min(end, ends.published_end)
    if start >= end:
        return 0
    scan = log.scan(start, end, _WANTED, rows=_ROWS)
    written = 0
    for rows in scan:
        done = queues.dispatch(rows, scan.cursor.offset, log.topic, fill_gaps=fill_gaps)
        written += done.written
    return written


def follow_cuts(writer: Writer, queues: ConsumeQueues) -> None:
    """
    Cut the queues at the offsets of pending cuts of the log.

    Raises:
        StorageError: the system refused; the cut stays pending.
    """
    while writer.cuts:
        offset = writer.cuts.pop()
        try:
            queues.cut(offset)
        except BaseException:
            # After any error the cut stays pending: no entry may point to another
            # record.
            writer.cuts.append(offset)
            raise


def remove_queues(writer: Writer, queues: ConsumeQueues) -> None:
    """
    Remove all queues of an empty log: its next record may have any queue offset.

    Raises:
        StorageError: the system refused; call it again.
    """
    for queue in queues:
        for base in reversed(list(queue.files.bases)):
            queue.files.remove(base)
    queues.load()
    queues.resume(0, 0)
    writer.cuts.clear()
    note_queues(writer, queues)


def check_dispatched(writer: Writer, queues: ConsumeQueues) -> None:
    """
    Check that the queues reach the end of the log.

    Raises:
        CorruptError: a promised record is bad, so that the records after it have no
            entries.
    """
    log = writer.log
    end = log.ends().published_end
    start = max(queues.dispatched_end, log.ends().min_offset)
    if start >= end:
        return
    found = log.scan(start, end).finish()
    if found.stop.is_bad or found.stop == Stop.ZERO:
        raise CorruptError(
            f"{writer.root}: damage at offset {found.offset}: consume queues end "
            f"there, the log at {end}: {found.text or 'nothing was written there'}",
            offset=found.offset,
            path=str(writer.root),
        )


def resume_queues(writer: Writer, queues: ConsumeQueues) -> None:
    """
    Dispatch the log from the synced end of the queues.

    Raises:
        StorageError: the system refused.
    """
    bounds = writer.metastore.read(QUEUES)
    end, made = writer.log.ends().published_end, writer.plan
    if made.is_new or made.reasons:
        # Queues of RocketMQ: entries above the end are removed, the others compared.
        # The log may have grown since it was opened.
        queues.cut(min(made.end_offset, end))
        follow_cuts(writer, queues)
        queues.resume(0, 0)
    else:
        if not made.is_clean or bounds.synced_end > end:
            queues.cut(min(bounds.synced_end, end))
        follow_cuts(writer, queues)
        queues.resume(min(bounds.synced_end, end), bounds.synced_ms)
    try:
        dispatch(writer, queues)
    except CorruptError:
        # Entries are missing in the middle: build all of them again.
        queues.cut(0)
        queues.resume(0, 0)
        dispatch(writer, queues, fill_gaps=True)
    note_queues(writer, queues)


def note_queues(writer: Writer, queues: ConsumeQueues) -> None:
    """
    Pass the lengths and the synced end of the queues to the writer.
    """
    writer.queue_lengths = tuple(
        QueueMark(topic, queue_id, length)
        for (topic, queue_id), length in queues.lengths().items()
    )
    writer.queue_bounds = QueueBounds(queues.synced_end, queues.synced_ms)


def catch_up(writer: Writer, file_size: int) -> None:
    """
    Complete existing queues of a store that was used as a log only.

    Args:
        writer: of the store, after the last append.
        file_size: of a queue file, in bytes.

    Raises:
        StorageError: the system refused.
    """
    folder = writer.root / CONSUME_QUEUE
    if writer.queue_lengths is not None or not folder.is_dir():
        return
    with ConsumeQueues(writer.root, file_size, is_writable=True) as queues:
        queues.load()
        resume_queues(writer, queues)
        check_dispatched(writer, queues)
        queues.sync()
        note_queues(writer, queues)
