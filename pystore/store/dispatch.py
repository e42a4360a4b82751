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
from pystore.metastore.schema import LENGTHS, POSITIONS, QUEUES
from pystore.metastore.values import QueueBounds
from pystore.store.delays import with_delivery_times
from pystore.store.light import find_light_groups

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
    made = writer.plan
    is_light = queues.has_light or (
        not queues.dispatched_end and (made.is_new or bool(made.reasons))
    )
    for found in scan:
        stop = scan.cursor.offset
        rows = with_delivery_times(log, found, writer.delay_levels_ms)
        light = find_light_groups(log, rows) if is_light else ()
        done = queues.dispatch(
            rows,
            stop,
            log.topic,
            fill_gaps=fill_gaps or writer.gap_max > 0,
            gap_max=writer.gap_max,
            light=light,
        )
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
    is_whole = bounds.synced_end > end or not _are_shorter(writer, queues)
    # A last entry that names bytes above the log is damage of its queue.
    is_whole = is_whole and all(queue.end_offset <= end for queue in queues)
    try:
        if is_whole:
            dispatch(writer, queues)
    except CorruptError:
        # Entries are missing in the middle.
        is_whole = False
    if not is_whole:
        _build_again(writer, queues)
    if not is_whole or made.is_new or made.reasons or not bounds.synced_end:
        # A queue that was built from a topic that was made again has the old entries:
        # the next record needs a slot of its own.
        writer.log.queues_load(queues.lengths())
    writer.gap_max = _largest_gap(writer, queues)
    note_queues(writer, queues)
    _forget_known_lengths(writer)


def _build_again(writer: Writer, queues: ConsumeQueues) -> None:
    """
    Builds every queue from the log. A crash amid it must not leave a queue that begins
    with its newest entries, so no entry counts as on disk before one is removed.
    """
    with writer.metastore.change() as change:
        change.write(QUEUES, QueueBounds())
        marks = change.marks(POSITIONS).next_offsets
    # Lost records may have left a gap below a number that was stored.
    writer.gap_max = max((mark.value for mark in marks), default=0)
    queues.cut(0)
    queues.resume(0, 0)
    dispatch(writer, queues, fill_gaps=True)


def _largest_gap(writer: Writer, queues: ConsumeQueues) -> int:
    """
    By how much the next queue offset of a queue is above its length: the numbers
    between were of records that the log lost.
    """
    lengths = queues.lengths()
    with writer.metastore.view() as view:
        marks = view.marks(POSITIONS).next_offsets
    gaps = (
        offset - lengths.get((topic, queue_id), offset)
        for topic, queue_id, offset in marks
    )
    return max(0, *gaps, 0)


def _are_shorter(writer: Writer, queues: ConsumeQueues) -> bool:
    """
    Whether a queue has fewer entries than were stored as on disk, as when its files
    were removed. A log that was cut since may have shorter queues, too: then they are
    built once more.
    """
    found = queues.lengths()
    with writer.metastore.view() as view:
        marks = view.marks(LENGTHS).next_offsets
    return any(
        found.get((topic, queue_id), 0) < length for topic, queue_id, length in marks
    )


def _forget_known_lengths(writer: Writer) -> None:
    """
    Of the lengths, only those that the metastore does not have are new.
    """
    with writer.metastore.view() as view:
        marks = view.marks(LENGTHS).next_offsets
    with writer.storing:
        new = writer.new_lengths or {}
        for topic, queue_id, length in marks:
            if new.get((topic, queue_id)) == length:
                del new[topic, queue_id]


def note_queues(writer: Writer, queues: ConsumeQueues) -> None:
    """
    Pass the lengths and the synced end of the queues to the writer.
    """
    with writer.storing:
        writer.new_lengths = (writer.new_lengths or {}) | queues.changed_lengths()
        queues.forget_changed()
    writer.queue_bounds = QueueBounds(queues.synced_end, queues.synced_ms)


def catch_up(writer: Writer, file_size: int | None) -> None:
    """
    Complete existing queues of a store that was used as a log only.

    Without a queue file their size is not known, and RocketMQ loads no queue of another
    size: then none is built, and RocketMQ builds them at its next start.

    Args:
        writer: of the store, after the last append.
        file_size: of a queue file, in bytes; ``None``: not known.

    Raises:
        StorageError: the system refused.
    """
    folder = writer.root / CONSUME_QUEUE
    if writer.new_lengths is not None or file_size is None:
        return
    if writer.queue_file_bytes is None and not folder.is_dir():
        return
    if _are_complete(writer):
        return
    with ConsumeQueues(writer.root, file_size, is_writable=True) as queues:
        queues.load()
        resume_queues(writer, queues)
        check_dispatched(writer, queues)
        queues.sync()
        note_queues(writer, queues)


def _are_complete(writer: Writer) -> bool:
    """
    Whether the queues are as a clean close left them, and the log has no new record:
    then none of them is read.
    """
    made, bounds = writer.plan, writer.metastore.read(QUEUES)
    if writer.queue_bounds is not None or writer.cuts or made.reasons:
        return False
    end = writer.log.ends().published_end
    if not made.is_clean or not bounds.synced_end or bounds.synced_end != end:
        return False
    writer.queue_bounds, writer.new_lengths = bounds, {}
    return True
