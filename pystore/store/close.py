"""
Keeping bounds while a store is open, and closing it with the clean mark.

Bounds are lower bounds: stored at most once a second and never on the path of
an append (A5). The clean mark says that everything is on disk and where the log
ends; it is voided by the next opening, before anything is written (A9).

Rules: docs/crash-safety.md, A5, A9, A11.
"""

from __future__ import annotations

from pystore.bindings.ffi import NO_OFFSET
from pystore.consumequeue.queues import queue_file_size_of
from pystore.errors import ForkedError, PoisonedError
from pystore.fs.layout import ABORT, CHECKPOINT, EPOCH_FILE
from pystore.metastore.schema import (
    EPOCHS,
    EXPORTS,
    LEFT,
    QUEUES,
)
from pystore.metastore.values import (
    CleanMark,
    digest_of,
)
from pystore.recovery.segments import Segments, last_record
from pystore.rocketmq.checkpoint_file import CheckpointTimes, parse_checkpoint
from pystore.store.bounds import current_bounds, queue_bounds
from pystore.store.dispatch import catch_up
from pystore.store.writer import Writer, left_of

__all__ = ["close_writer"]

_NO_EPOCH_ABOVE = 2**63 - 1


def close_writer(writer: Writer) -> None:
    """
    Mark the store clean and give everything back; again is fine.

    Raises:
        PoisonedError: a write-back failed; closed, but not marked clean.
        StorageError: the system refused; likewise.
    """
    if writer.is_closed:
        return
    writer.is_closed = True
    with writer.stack:
        try:
            _mark_clean(writer)
        except ForkedError:
            # A child closes what its parent goes on using: nothing of it.
            return


def _mark_clean(writer: Writer) -> None:
    log = writer.log
    # No append may come between the end that is marked and the close.
    log.authority(_NO_EPOCH_ABOVE, 0, 0)
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
        # Half a raw record is zeroed when the log closes: not clean before that.
        return
    log.sync(NO_OFFSET)
    catch_up(writer, queue_file_size_of(writer.root))
    positions, bounds = current_bounds(writer)
    mark, store_ms = _mark_of(writer, positions.as_of)
    times = _times(writer, store_ms)
    left = left_of(writer, writer.metastore.read(LEFT))
    queues = queue_bounds(writer)
    # Half a raw record may stand above the end, which the mark calls zero.
    log.close()
    with writer.metastore.change() as change:
        change.store_bounds(bounds, positions, times)
        if queues is not None:
            change.write(QUEUES, queues)
        change.leave(left)
        change.intend_export(ABORT, None)
        change.mark_clean(mark)
        exports, epochs = change.read(EXPORTS), change.read(EPOCHS)
    writer.export(CHECKPOINT, times.encode())
    if len(exports.digests.get(EPOCH_FILE, ())) > 1:
        writer.export_epochs(epochs)
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


def _times(writer: Writer, store_ms: int) -> CheckpointTimes:
    """
    What ``checkpoint`` may say: no more than is on disk (A11).
    """
    path = writer.root / CHECKPOINT
    before = (
        parse_checkpoint(path.read_bytes(), str(path))
        if path.exists()
        else CheckpointTimes()
    )
    # Without queues nothing of them is on disk, whatever was said before.
    queues_ms = writer.queue_bounds.synced_ms if writer.queue_bounds else 0
    return CheckpointTimes(
        physic_ms=store_ms,
        logics_ms=min(queues_ms, store_ms),
        index_ms=min(before.index_ms, store_ms),
        master_flushed_offset=before.master_flushed_offset,
        confirm_offset=writer.log.ends().confirm_offset,
    )
