"""
Storing lower bounds of a log: synced end, confirm offset, queue offsets.

Source: docs/crash-safety.md, A5.
"""

from __future__ import annotations

from dataclasses import replace

from pystore.fs.layout import ABORT
from pystore.metastore.schema import BOUNDS, CUT, FINGERPRINT, POSITIONS, QUEUES
from pystore.metastore.values import Bounds, QueueBounds, QueueMark, QueueOffsets
from pystore.store.writer import Writer, fingerprint_of


def keep_bounds(writer: Writer) -> bool:
    """
    Sync, and store the bounds if they changed.

    Returns:
        Whether bounds were stored.

    Raises:
        PoisonedError: a write-back failed.
        StorageError: the system refused.
    """
    _export_abort(writer)
    before = writer.metastore.read(CUT)
    positions, bounds = current_bounds(writer)
    stored = writer.metastore.read(BOUNDS)
    queues = queue_bounds(writer)
    if (
        bounds == stored
        and positions.as_of == writer.metastore.read(POSITIONS).as_of
        and queues in (None, writer.metastore.read(QUEUES))
    ):
        return False
    writer.log.sync(positions.as_of)
    with writer.metastore.change() as change:
        if before.intent is not None or change.read(CUT) != before:
            # Another thread cut the log: the ends are no longer valid. A cut that is
            # not done has reset the queues.
            return False
        change.store_bounds(bounds, positions)
        if queues is not None:
            change.write(QUEUES, queues)
        change.store_fingerprint(fingerprint_of(writer, change.read(FINGERPRINT)))
    return True


def _export_abort(writer: Writer) -> None:
    """
    Write an ``abort`` that a full disk delayed, if there is space now (A13).
    """
    text = writer.delayed_abort
    if text is not None and writer.export(ABORT, text):
        writer.delayed_abort = None


def current_bounds(writer: Writer) -> tuple[QueueOffsets, Bounds]:
    """
    The queue offsets at one end of the log, and the bounds after a sync of it.
    """
    queues, end = writer.log.queues_fill()
    marks = tuple(QueueMark(topic, queue, at) for (topic, queue), at in queues.items())
    confirm = min(writer.log.ends().confirm_offset, end)
    boot_id, mount_id = writer.boot.text
    return QueueOffsets(end, marks), Bounds(end, confirm, boot_id, mount_id)


def queue_bounds(writer: Writer) -> QueueBounds | None:
    """
    The bounds of the queues, not above a pending cut.
    """
    bounds = writer.queue_bounds
    if bounds is None:
        return None
    end = min(bounds.synced_end, *writer.cuts) if writer.cuts else bounds.synced_end
    return replace(bounds, synced_end=end)
