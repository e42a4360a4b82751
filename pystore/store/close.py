"""
Closing a store, with the clean mark.

The clean mark has the end of the log, and means that everything is on disk. The next
opening voids it before its first write (A9).

After a killed RocketMQ ``abort`` stays, and ``checkpoint`` has its times: else a
RocketMQ that starts later would not write the index entries, timers and compacted
records that the killed one did not come to.

Rules: docs/crash-safety.md, A5, A9, A11.
"""

from __future__ import annotations

from dataclasses import replace

from pystore.bindings.ffi import NO_OFFSET
from pystore.consumequeue.queues import found_file_size, queue_file_size
from pystore.errors import ForkedError, PoisonedError
from pystore.fs.layout import ABORT, CHECKPOINT, EPOCH_FILE
from pystore.fs.regular_file import read_regular
from pystore.metastore.schema import (
    DISPATCHED,
    EPOCHS,
    EXPORTS,
    QUEUES,
)
from pystore.metastore.values import (
    CleanMark,
    digest_of,
)
from pystore.recovery.segments import Segments, last_record
from pystore.rocketmq.checkpoint_file import CheckpointTimes, parse_checkpoint
from pystore.store.bounds import (
    changes_of,
    current_bounds,
    queue_bounds,
)
from pystore.store.dispatch import catch_up
from pystore.store.writer import Writer

__all__ = ["close_writer"]

_NO_EPOCH_ABOVE = 2**63 - 1


def close_writer(writer: Writer) -> None:
    """
    Store the clean mark and release everything; calling it again is allowed.

    Raises:
        PoisonedError: a write-back failed; the store is closed without a clean mark.
        StorageError: the system refused; the same.
    """
    if writer.is_closed:
        return
    writer.is_closed = True
    with writer.stack:
        try:
            _mark_clean(writer)
        except ForkedError:
            # The store belongs to the parent process.
            return


def _mark_clean(writer: Writer) -> None:
    log = writer.log
    # No append may follow the end in the mark.
    log.authority(_NO_EPOCH_ABOVE, 0, 0)
    # In a store that another writer may have, not even a mark is written.
    log.check_guard()
    if log.ends().poisoned:
        raise PoisonedError(
            f"{writer.root}: a write-back failed while the store was open: nothing "
            f"above offset {log.ends().synced_end} is proven synced; the next "
            "opening checks and rewrites it",
            offset=log.ends().synced_end,
            path=str(writer.root),
        )
    ends = log.ends()
    if ends.received_end > ends.published_end:
        # The close of the log zeroes the incomplete raw record: not clean before.
        return
    log.sync(NO_OFFSET)
    known = writer.queue_file_bytes
    built = None if known is None else queue_file_size(known)
    catch_up(writer, found_file_size(writer.root) or built)
    with writer.storing:
        _store_mark(writer)


def _store_mark(writer: Writer) -> None:
    log = writer.log
    end, bounds = current_bounds(writer)
    mark, store_ms = _mark_of(writer, end)
    times = _times(writer, mark, store_ms)
    undispatched = writer.metastore.read(DISPATCHED)
    if undispatched is not None:
        times = times.at_most(undispatched)
    changes, queues = changes_of(writer, end), queue_bounds(writer)
    # This zeroes an incomplete raw record above the end: the mark requires zeros.
    log.close()
    with writer.metastore.change() as change:
        change.store_bounds(bounds, times)
        changes.store(writer, change)
        if queues is not None:
            change.write(QUEUES, queues)
        if undispatched is None:
            change.intend_export(ABORT, None)
        change.mark_clean(replace(mark, physic_ms=times.physic_ms))
        exports, epochs = change.read(EXPORTS), change.read(EPOCHS)
    changes.forget(writer)
    writer.export(CHECKPOINT, times.encode())
    if len(exports.digests.get(EPOCH_FILE, ())) > 1:
        writer.export_epochs(epochs)
    if undispatched is None:
        writer.export(ABORT, None)


def _mark_of(writer: Writer, end: int) -> tuple[CleanMark, int]:
    """
    The clean mark at ``end``, and the store time of the last record.
    """
    segments = Segments(writer.log)
    last = writer.log.ends().last_offset
    if last is None and (found := last_record(segments, end)):
        last = found[0]
    if last is None:
        return CleanMark(end), 0
    record = writer.log.read(last)
    return CleanMark(end, last, digest_of(segments.raw(last, record.size))), (
        record.store_ms
    )


def _times(writer: Writer, mark: CleanMark, store_ms: int) -> CheckpointTimes:
    """
    The content of ``checkpoint``: only records that are on disk (A11). What another
    version of RocketMQ wrote behind the known fields stays.
    """
    path = writer.root / CHECKPOINT
    before = (
        parse_checkpoint(read_regular(path), str(path))
        if path.exists()
        else CheckpointTimes()
    )
    # Without queues no entry is on disk, whatever the file has.
    queues_ms = writer.queue_bounds.synced_ms if writer.queue_bounds else 0
    return replace(
        before,
        physic_ms=store_ms,
        logics_ms=min(queues_ms, store_ms),
        index_ms=min(before.index_ms, store_ms),
        confirm_offset=writer.log.ends().confirm_offset,
        logics_offset=_logics_offset(writer, mark, before.logics_offset),
    )


def _logics_offset(writer: Writer, mark: CleanMark, before: int) -> int:
    """
    The start of the last record with a synced queue entry, where RocketMQ 5.5.0 or
    newer has left the field; else 0, and the time is what counts.
    """
    if not before or writer.queue_bounds is None:
        return 0
    end = writer.queue_bounds.synced_end
    if end >= mark.end_offset and mark.last_offset is not None:
        return mark.last_offset
    return min(before, end)
