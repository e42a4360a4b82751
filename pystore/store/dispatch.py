"""
Bringing consume queues to the log's end, and knowing how far they are on disk.

What is not sure to be on disk is cut away and built again from the log. Whoever
closes a store whose queues exist leaves them complete: after a clean stop a Java
broker dispatches again only what begins above the last entry's end.
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
    "forget_queues",
    "note_queues",
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
    Give every record up to ``end`` its queue entry; ``None``: to the log's end.

    Returns:
        How many entries were written.

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
    Cut the queues where the log was cut since.

    Raises:
        StorageError: the system refused; the cut is not forgotten.
    """
    while writer.cuts:
        offset = writer.cuts.pop()
        try:
            queues.cut(offset)
        except BaseException:
            # Whatever it was: entries of other records must not stay.
            writer.cuts.append(offset)
            raise


def forget_queues(writer: Writer, queues: ConsumeQueues) -> None:
    """
    Remove every queue: of an empty log, the next record of which may have any queue
    offset.

    Raises:
        StorageError: the system refused; forget again.
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
    Make sure that the queues reach the log's end.

    Raises:
        CorruptError: a record that was promised is bad, so that what follows it
            has no entries.
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
    Go on where the queues stand for sure, and dispatch the rest of the log.

    Raises:
        StorageError: the system refused.
    """
    bounds = writer.metastore.read(QUEUES)
    end, made = writer.log.ends().published_end, writer.plan
    if made.is_new or made.reasons:
        # RocketMQ's queues: entries above the end go, the rest is compared. The log
        # may have grown since it was opened.
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
        # Entries are missing in the middle: all of them can be made again.
        queues.cut(0)
        queues.resume(0, 0)
        dispatch(writer, queues, fill_gaps=True)
    note_queues(writer, queues)


def note_queues(writer: Writer, queues: ConsumeQueues) -> None:
    """
    Tell the writer how long the queues are, and how far they are on disk.
    """
    writer.queue_lengths = tuple(
        QueueMark(topic, queue_id, length)
        for (topic, queue_id), length in queues.lengths().items()
    )
    writer.queue_bounds = QueueBounds(queues.synced_end, queues.synced_ms)


def catch_up(writer: Writer, file_size: int) -> None:
    """
    Complete the queues of a store that was used as a log alone, if it has any.

    Args:
        writer: of the store, which nobody appends to any more.
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
