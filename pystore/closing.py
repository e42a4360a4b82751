"""
Keeping bounds while a store is open, and closing it with the clean mark.

Bounds are lower bounds: stored at most once a second and never on the path of
an append (A5). The clean mark says that everything is on disk and where the log
ends; it is voided by the next opening, before anything is written (A9).

Rules: docs/crash-safety.md, A5, A9, A11.
"""

from __future__ import annotations

from pystore._seam import NO_OFFSET
from pystore.change import Change
from pystore.dispatching import catch_up
from pystore.epoch_file import EPOCHS as EPOCH_FILE
from pystore.errors import ForkedError, PoisonedError
from pystore.exports import ABORT, CHECKPOINT, CheckpointTimes, parse_checkpoint
from pystore.starting import Writer, left_of, queue_file_size_of
from pystore.stored_truth import BOUNDS, EPOCHS, EXPORTS, LEFT, POSITIONS, QUEUES
from pystore.survey import Segments, last_record
from pystore.truth import Bounds, CleanMark, Positions, QueueMark, digest_of

__all__ = ["close_writer", "keep_bounds"]

_NO_EPOCH_ABOVE = 2**63 - 1


def keep_bounds(writer: Writer) -> bool:
    """
    Sync, and store how far; nothing if nothing changed.

    Returns:
        Whether there was something to store.

    Raises:
        PoisonedError: a write-back failed.
        StorageError: the system refused.
    """
    positions, bounds = _now(writer)
    stored = writer.checkpoint.read(BOUNDS)
    if (
        bounds == stored
        and positions.as_of == writer.checkpoint.read(POSITIONS).as_of
        and writer.queue_bounds in (None, writer.checkpoint.read(QUEUES))
    ):
        return False
    writer.log.sync(positions.as_of)
    with writer.checkpoint.change() as change:
        change.store_bounds(bounds, positions)
        _store_queues(writer, change)
        change.leave(left_of(writer, change.read(LEFT)))
    return True


def _now(writer: Writer) -> tuple[Positions, Bounds]:
    """
    The queues as of one end of the log, and the bounds once that is synced.
    """
    queues, end = writer.log.queues_fill()
    marks = tuple(QueueMark(topic, queue, at) for (topic, queue), at in queues.items())
    confirm = min(writer.log.ends().confirm_offset, end)
    boot_id, mount_id = writer.boot.text
    return Positions(end, marks), Bounds(end, confirm, boot_id, mount_id)


def _store_queues(writer: Writer, change: Change) -> None:
    if writer.queue_bounds is not None:
        change.write(QUEUES, writer.queue_bounds)


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
    positions, bounds = _now(writer)
    mark, store_ms = _mark_of(writer, positions.as_of)
    times = _times(writer, store_ms)
    with writer.checkpoint.change() as change:
        change.store_bounds(bounds, positions, times)
        _store_queues(writer, change)
        change.leave(left_of(writer, change.read(LEFT)))
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
    queues_ms = writer.queue_bounds.synced_ms if writer.queue_bounds else 0
    return CheckpointTimes(
        physic_ms=store_ms,
        logics_ms=min(max(before.logics_ms, queues_ms), store_ms),
        index_ms=min(before.index_ms, store_ms),
        master_flushed_offset=before.master_flushed_offset,
        confirm_offset=writer.log.ends().confirm_offset,
    )
