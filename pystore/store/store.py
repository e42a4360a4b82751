"""
`Store`: a log with its consume queues, read by topic and queue.

The queues are derived from the log: entries are built from the columns of a scan. The
metastore has a lower bound of the synced entries; after a crash the entries above it
are removed and built again.

Threads: any thread may append. A read at the end of a queue dispatches first, so all
other methods need a lock if several threads call them. `pystore.open_store`, which
starts a maintenance thread, passes one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

from pystore.consumequeue.queues import (
    ConsumeQueues,
    found_file_size,
    queue_file_size,
)
from pystore.core.arguments import instance
from pystore.core.options import DEFAULTS, Mode
from pystore.errors import (
    ClosedError,
    CorruptError,
    InvalidError,
    check_integers,
)
from pystore.events import EventSink
from pystore.fs.layout import COMMIT_LOG, META_NAME, store_root
from pystore.message.message import BODY_SIZE_MAX
from pystore.metastore.schema import EPOCHS
from pystore.store.bounds import keep_bounds
from pystore.store.commit_log import CommitLog
from pystore.store.cut import begin_at
from pystore.store.dispatch import (
    check_dispatched,
    dispatch,
    follow_cuts,
    note_queues,
    remove_queues,
    resume_queues,
)
from pystore.store.handle import StoreHandle, own
from pystore.store.monitor import Health
from pystore.store.readable_queues import ReadableQueues
from pystore.store.retention import Retention, delete_before
from pystore.store.sealer import seal_next
from pystore.stored_names import public

if TYPE_CHECKING:
    from pathlib import Path


__all__ = ["Store"]

_TAG_ENTRIES = 4096


@public
class Store(StoreHandle, ReadableQueues):
    """
    A commit log and its consume queues.

    Args:
        path: the store's directory.
        mode: ``w`` or ``r``.
        queue_file_bytes: size of new queue files, ``mappedFileSizeConsumeQueue``;
            existing ones keep theirs. ``None``: RocketMQ's default, but not in its own
            store: it loads no queue of another size than it is configured for.
        until_confirmed: while the store is open, only confirmed records get entries: a
            queue has no record that the replica may still have to cut.
        lock: reentrant, held while the queues change; without it, only one thread at
            a time may use the store, except for appends.
        create: with ``w``: create a store in a missing or empty directory.
        segment_size: of new stores, in bytes; 0: 1 GiB.
        property_crc: append RocketMQ's property CRC.
        message_size_max: the largest body, in bytes.
        flush_interval_ms: the interval of the flusher; 0: no flusher.
        writeback_bytes: bytes between two early write-backs; 0: none.
        store_host: the ``address:port`` of the broker in records.
        accept_loss: open although promised bytes are bad; see `CommitLog`.
        save_to: the parent of the directory for removed bytes; see `CommitLog`.
        on_event: called with each `pystore.events.StoreEvent`, in any thread.
        delay_levels: the broker's ``messageDelayLevel``, for the queue entries of
            delayed records; empty: RocketMQ's default.

    Attributes:
        log: the log; append to it, but cut through the store.
        queues: the consume queues, to the dispatched end.

    Raises:
        PystoreError: as `CommitLog`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        mode: Mode = "w",
        queue_file_bytes: int | None = None,
        until_confirmed: bool = False,
        lock: AbstractContextManager[object] | None = None,
        create: bool = True,
        segment_size: int = 0,
        property_crc: bool = True,
        message_size_max: int = BODY_SIZE_MAX,
        flush_interval_ms: int = DEFAULTS.flush_interval_ms,
        writeback_bytes: int = DEFAULTS.writeback_bytes,
        store_host: str = DEFAULTS.store_host,
        accept_loss: bool = False,
        save_to: str | os.PathLike[str] | None = None,
        on_event: EventSink | None = None,
        delay_levels: str = "",
    ) -> None:
        if mode == "w" and queue_file_bytes is None:
            _require_known_size(store_root(path))
        super().__init__(store_root(path), is_writable=mode == "w", lock=lock)
        self.log: CommitLog
        self.queues: ConsumeQueues
        self._until_confirmed = until_confirmed
        open_log = partial(
            CommitLog,
            path,
            mode=mode,
            create=create,
            segment_size=segment_size,
            property_crc=property_crc,
            message_size_max=message_size_max,
            flush_interval_ms=flush_interval_ms,
            writeback_bytes=writeback_bytes,
            store_host=store_host,
            accept_loss=accept_loss,
            save_to=save_to,
            on_event=on_event,
            delay_levels=delay_levels,
            queue_file_bytes=queue_file_bytes,
        )
        opening = self._opening(partial(self._open, open_log, queue_file_bytes))
        try:
            opening.run()
        except BaseException:
            # Also Ctrl-C: no caller gets this handle.
            opening.abandon()
            raise

    def _open(
        self, open_log: Callable[[], CommitLog], queue_file_bytes: int | None
    ) -> None:
        queue_bytes = (
            queue_file_size()
            if queue_file_bytes is None
            else queue_file_size(queue_file_bytes)
        )
        self.log = log = open_log()
        own(log)
        try:
            size = found_file_size(log.path) or queue_bytes
            self.queues = ConsumeQueues(log.path, size, is_writable=self._is_writable)
            self._read_entry = log.reader.read_entry
            self.queues.load()
            if self._is_writable:
                resume_queues(log.writer, self.queues)
        except BaseException:
            # After any error the lock is released.
            if hasattr(self, "queues"):
                self.queues.close()
            log.close()
            raise

    def __repr__(self) -> str:
        mode = "w" if self._is_writable else "r"
        return f"Store({str(self.path)!r}, mode={mode!r})"

    def _prepare_close(self) -> None:
        self.log._prepare_close()

    def _close(self) -> None:
        # The lock is held by the caller, which may be another thread.
        try:
            if self._is_writable and not self.log.is_closed:
                self._until_confirmed = False
                self._dispatch()
                self._sync_queues()
        except BaseException:
            # Without all entries there is no clean mark, so the close of the log tries
            # again.
            self.log.writer.new_lengths = None
            raise
        finally:
            self.queues.close()
            self.log.close()

    def _parts(self) -> tuple[object, ...]:
        return (self.queues,)

    def _release_in_child(self) -> None:
        self.queues.close()
        self.log.close()

    @property
    def health(self) -> Health:
        """
        The state of the store and of its maintenance now.

        Raises:
            InvalidError: open for reading only.
            ClosedError: closed.
        """
        writer = self.log.writer
        return writer.monitor.health(writer.log.ends(), self.queues.dispatched_end)

    # -- dispatching -------------------------------------------------------

    def dispatch(self) -> int:
        """
        Write the entry of every record up to the log's end, or up to the confirm
        offset.

        Returns:
            The number of written entries.

        Raises:
            CorruptError: entries are missing below, or a record is bad.
            StorageError: the system refused; dispatch again later.
        """
        with self._lock:
            self._refuse_closed()
            return self._dispatch()

    def _refuse_closed(self) -> None:
        """
        Called with the lock: an interrupted close may go on in another thread.
        """
        if not self._is_open or self._is_closing:
            raise ClosedError(f"{self.path} was closed", path=str(self.path))

    def _dispatch(self) -> int:
        # No entry is written beside those of another writer.
        self.log.writer.log.check_guard()
        if self._until_confirmed:
            confirmed = self.log.confirm_offset
            return dispatch(self.log.writer, self.queues, confirmed)
        written = dispatch(self.log.writer, self.queues)
        check_dispatched(self.log.writer, self.queues)
        return written

    def _sync_queues(self) -> None:
        self.queues.sync()
        note_queues(self.log.writer, self.queues)

    def keep(self) -> bool:
        """
        Dispatch, sync the queues, store bounds, seal a segment; the maintenance thread
        calls it once a second.

        Raises:
            CorruptError: as `dispatch`; the bounds were stored.
            StorageError: the system refused.
        """
        writer = self.log.writer
        with writer.monitor.keeping(writer.log.ends, is_whole=True):
            try:
                with self._lock:
                    self.dispatch()
                    self._sync_queues()
            finally:
                has_stored = keep_bounds(writer)
            until = self.log.confirm_offset if self._until_confirmed else None
            return seal_next(writer, until) or has_stored

    def _catch_up(self) -> None:
        if self._is_writable:
            self.dispatch()
        else:
            with self._lock:
                self.queues.load()

    # -- changing ----------------------------------------------------------

    def cut(self, offset: int) -> int:
        """
        Cut the log and its queues at a record end; at 0 all is removed.

        Returns:
            The number of removed bytes.

        Raises:
            PystoreError: as `CommitLog.cut`.
        """
        with self._lock:
            self._refuse_closed()
            report = self.log.cut(offset)
            if offset:
                follow_cuts(self.log.writer, self.queues)
                note_queues(self.log.writer, self.queues)
            else:
                remove_queues(self.log.writer, self.queues)
        return report.bytes_cut

    def begin_at(self, base: int) -> None:
        """
        Move the beginning of an empty store to the base of a segment: its next record
        has that offset, and any queue offset.

        Raises:
            PystoreError: as `pystore.store.cut.begin_at`.
        """
        with self._lock:
            self._refuse_closed()
            remove_queues(self.log.writer, self.queues)
            begin_at(self.log.writer, base)

    def retain(self, retention: Retention, now_ms: int) -> int:
        """
        Delete segments by a retention policy, then queue files and epochs.

        Args:
            retention: the policy.
            now_ms: the time, in ms since 1970.

        Returns:
            The number of deleted segments.

        Raises:
            CorruptError: a segment would go for its age, but a bad record hides it.
                Older segments were deleted; this one and all after it stay. Or a bad
                record hides others that have no queue entries yet: nothing was deleted.
            StorageError: the system refused.
        """
        instance("retention", retention, Retention)
        check_integers(now_ms=now_ms)
        writer = self.log.writer
        hidden: list[CorruptError] = []

        def last_ms(base: int) -> int | None:
            try:
                return writer.ages.last_ms(base)
            except CorruptError as error:
                # Damage is no reason to delete: the segment counts as young.
                writer.monitor.note_damage(error)
                hidden.append(error)
                return now_ms

        size, bases = self.log.ends.segment_size, self.log.reader.segments()
        offset = delete_before(bases, size, last_ms, retention, now_ms)
        removed = 0 if offset is None else self._delete_before(offset)
        for error in hidden:
            if (error.offset or 0) >= self.log.min_offset:
                raise error
        return removed

    def _delete_before(self, offset: int) -> int:
        writer = self.log.writer
        with self._lock:
            self._refuse_closed()
            # Without its records, an entry cannot be made any more.
            self._dispatch()
            if self.queues.dispatched_end < offset:
                # Damage stops dispatching; below the confirm offset nothing said so.
                check_dispatched(writer, self.queues)
            removed = self.log.delete_before(offset)
            self.queues.delete_before(offset)
            with writer.metastore.change() as change:
                table = change.read(EPOCHS).cut_prefix(self.log.min_offset - 1)
                change.replace_epochs(table)
            writer.export_epochs(table)
            note_queues(writer, self.queues)
        return removed


def _require_known_size(root: Path) -> None:
    """
    Refuse to guess the size of queue files in a store that RocketMQ left without any.
    """
    if (root / META_NAME).exists() or found_file_size(root):
        return
    if any((root / COMMIT_LOG).glob("[0-9]*")):
        raise InvalidError(
            f"{root}: a store of RocketMQ without queue files does not show their "
            "size: give the broker's mappedFileSizeConsumeQueue as queue_file_bytes "
            "(RocketMQ's default is 6000000), or let RocketMQ build its queues first",
            path=str(root),
        )
