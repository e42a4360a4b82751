"""
Storing lower bounds of a log: synced end, confirm offset, queue offsets.

Source: docs/crash-safety.md, A5.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from pystore.fs.layout import ABORT
from pystore.metastore.schema import BOUNDS, CUT, HEADS, LENGTHS, POSITIONS, QUEUES
from pystore.metastore.transaction import WriteTransaction
from pystore.metastore.values import (
    Bounds,
    QueueBounds,
    StoreFingerprint,
)
from pystore.store.writer import Writer, fingerprint_of

_LOGGER = logging.getLogger("pystore")


def keep_bounds(writer: Writer) -> bool:
    """
    Sync, and store the bounds if they changed.

    Returns:
        Whether bounds were stored.

    Raises:
        PoisonedError: a write-back failed.
        StorageError: the system refused.
    """
    writer.log.check_guard()
    with writer.storing:
        end = _keep_bounds(writer)
    if end is None:
        return False
    writer.monitor.note_stored(end)
    return True


def _keep_bounds(writer: Writer) -> int | None:
    """
    Returns the end of the stored bounds; ``None``: nothing was stored.
    """
    _export_abort(writer)
    _watch_clock(writer)
    before = writer.metastore.read(CUT)
    end, bounds = current_bounds(writer)
    stored = writer.metastore.read(BOUNDS)
    queues = queue_bounds(writer)
    if (
        bounds == stored
        and end == writer.metastore.read(HEADS[POSITIONS]).as_of
        and queues in (None, writer.metastore.read(QUEUES))
    ):
        return None
    writer.log.sync(end)
    changes = changes_of(writer, end)
    with writer.metastore.change() as change:
        if before.intent is not None or change.read(CUT) != before:
            # Another thread cut the log: the ends are no longer valid. A cut that is
            # not done has reset the queues.
            writer.knows_offsets = False
            return None
        change.store_bounds(bounds)
        if queues is not None:
            change.write(QUEUES, queues)
        changes.store(writer, change)
    changes.forget(writer)
    return end


def changes_of(writer: Writer, end: int) -> Changes:
    """
    What is new of queues and segments, when the log ends at ``end``.
    """
    ends = writer.log.ends()
    left = (ends.min_offset, ends.segments, ends.cut_generation)
    fingerprint = None if left == writer.left else fingerprint_of(writer)
    return Changes(end, left, fingerprint)


@dataclass(frozen=True, slots=True)
class Changes:
    """
    What the metastore does not have yet; the numbers of queues are in the writer.

    Attributes:
        end: of the log.
        left: as `Writer.left`.
        fingerprint: of the segments; ``None``: unchanged.
    """

    end: int
    left: tuple[int, int, int]
    fingerprint: StoreFingerprint | None

    def store(self, writer: Writer, change: WriteTransaction) -> None:
        """
        Add it to a transaction.
        """
        change.change_marks(POSITIONS, writer.new_offsets, self.end)
        if writer.new_lengths is not None:
            change.change_marks(LENGTHS, writer.new_lengths)
        if self.fingerprint is not None:
            change.store_fingerprint(self.fingerprint)

    def forget(self, writer: Writer) -> None:
        """
        The transaction is durable: nothing is new any more.
        """
        writer.left = self.left
        writer.new_offsets.clear()
        if writer.new_lengths is not None:
            writer.new_lengths.clear()


def _export_abort(writer: Writer) -> None:
    """
    Write an ``abort`` that a full disk delayed, if there is space now (A13).
    """
    text = writer.delayed_abort
    if text is not None and writer.export(ABORT, text):
        writer.delayed_abort = None


def _watch_clock(writer: Writer) -> None:
    """
    Log one warning when the wall clock steps ahead of boot time, and one line when it
    is right again (A21).
    """
    ahead_ms = writer.log.clock().ahead_ms
    is_ahead = ahead_ms > 0
    if is_ahead == writer.is_clock_ahead:
        return
    writer.is_clock_ahead = is_ahead
    if is_ahead:
        _LOGGER.warning(
            "%s: the wall clock stepped %.1f s forward, and CLOCK_BOOTTIME does not "
            "confirm it: records keep the time of before: set the clock right, or call "
            "CommitLog.accept_clock() if it is right",
            writer.root,
            ahead_ms / 1000,
        )
    else:
        _LOGGER.info("%s: records have the time of the wall clock again", writer.root)


def current_bounds(writer: Writer) -> tuple[int, Bounds]:
    """
    The end of the log, and the bounds after a sync of it. The queues that changed up to
    there are added to the writer's new offsets.
    """
    # Ctrl-C may come before the taken ones are added.
    knew, writer.knows_offsets = writer.knows_offsets, False
    changed, end = writer.log.queues_take()
    if knew:
        writer.new_offsets |= changed
    else:
        writer.new_offsets, end = writer.log.queues_fill()
    writer.knows_offsets = True
    confirm = min(writer.log.ends().confirm_offset, end)
    boot_id, mount_id = writer.boot.text
    return end, Bounds(end, confirm, boot_id, mount_id)


def queue_bounds(writer: Writer) -> QueueBounds | None:
    """
    The bounds of the queues, not above a pending cut.
    """
    bounds = writer.queue_bounds
    if bounds is None:
        return None
    end = min(bounds.synced_end, *writer.cuts) if writer.cuts else bounds.synced_end
    return replace(bounds, synced_end=end)
