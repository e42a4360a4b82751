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
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Unpack

from pystore.consumequeue.queue import ConsumeQueue
from pystore.consumequeue.queues import (
    ConsumeQueues,
    queue_file_size,
    queue_file_size_of,
)
from pystore.core.options import LogArguments
from pystore.errors import OffsetOutOfRange
from pystore.message.properties import tags_code
from pystore.metastore.schema import EPOCHS
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
from pystore.store.retention import Retention, SegmentAge, delete_before
from pystore.store.sealer import seal_next
from pystore.stored_names import public

if TYPE_CHECKING:
    from pystore.message.record import Record

__all__ = ["Store"]

_TAG_ENTRIES = 4096


@public
class Store:
    """
    A commit log and its consume queues.

    Args:
        path: the store's directory.
        mode: ``w`` or ``r``.
        queue_file_bytes: size of new queue files; existing ones keep theirs.
        until_confirmed: while the store is open, only confirmed records get entries: a
            queue has no record that the replica may still have to cut.
        lock: reentrant, held while the queues change; without it, only one thread at
            a time may use the store, except for appends.
        options: of `CommitLog`.

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
        mode: str = "w",
        queue_file_bytes: int = 6_000_000,
        until_confirmed: bool = False,
        lock: AbstractContextManager[object] | None = None,
        **options: Unpack[LogArguments],
    ) -> None:
        self.log = CommitLog(path, mode=mode, **options)
        self._read_entry = self.log.reader.read_entry
        self._is_writable = mode == "w"
        self._closers: list[Callable[[], object]] = []
        self._lock = nullcontext() if lock is None else lock
        self._until_confirmed = until_confirmed
        root = self.log.path
        size = queue_file_size_of(root, queue_file_size(queue_file_bytes))
        self.queues = ConsumeQueues(root, size, is_writable=self._is_writable)
        try:
            self.queues.load()
            if self._is_writable:
                resume_queues(self.log.writer, self.queues)
        except BaseException:
            # After any error the lock is released.
            self.queues.close()
            self.log.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """
        Dispatch and sync the rest, then close; calling it again is allowed.

        Raises:
            StorageError: as `CommitLog.close`.
        """
        while self._closers:
            self._closers.pop()()
        with self._lock:
            try:
                if self._is_writable and not self.log.is_closed:
                    self._until_confirmed = False
                    self.dispatch()
                    self._sync_queues()
            except BaseException:
                # Without all entries there is no clean mark, so the close of the log
                # tries again.
                self.log.writer.queue_lengths = None
                raise
            finally:
                self.queues.close()
                self.log.close()

    def before_close(self, closer: Callable[[], object]) -> None:
        """
        Call *closer* when the store begins to close; the newest first.
        """
        self._closers.append(closer)

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
        try:
            with self._lock:
                self.dispatch()
                self._sync_queues()
        finally:
            has_stored = self.log.keep()
        return seal_next(self.log.writer) or has_stored

    # -- reading -----------------------------------------------------------

    def _queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        queue = self.queues.get(topic, queue_id)
        if queue is None:
            self._catch_up()
            queue = self.queues.get(topic, queue_id)
        if queue is None:
            raise OffsetOutOfRange(f"{topic}, queue {queue_id}: no such queue")
        return queue

    def _catch_up(self) -> None:
        if self._is_writable:
            self.dispatch()
        else:
            with self._lock:
                self.queues.load()

    def read(self, topic: str, queue_id: int, queue_offset: int) -> Record:
        """
        The record at a queue offset.

        Raises:
            OffsetOutOfRange: the record does not exist, or was deleted.
            CorruptError: the log has no whole record there.
        """
        queue = self.queues.get(topic, queue_id)
        if queue is None or queue_offset >= queue.max_index:
            self._catch_up()
            queue = self._queue(topic, queue_id)
        # The variable keeps the descriptor open during the call.
        file, at = queue.place(queue_offset)
        record = self._read_entry(file.number, at)
        if record is None:
            record = self.log.read(queue.read(queue_offset).offset)
        return record

    def read_from(
        self, topic: str, queue_id: int, queue_offset: int, count: int
    ) -> list[Record]:
        """
        Up to *count* records from a queue offset on; empty at the end.

        Raises:
            OffsetOutOfRange: *queue_offset* is not within the queue.
        """
        queue = self._queue(topic, queue_id)
        if queue_offset + count > queue.max_index:
            self._catch_up()
        entries = self._queue(topic, queue_id).entries(queue_offset, count)
        lowest = self.log.min_offset
        offsets = entries["offset"].tolist()
        return [self.log.read(at) for at in offsets if at >= lowest]

    def find_tag(
        self, topic: str, queue_id: int, tag: str, queue_offset: int = 0
    ) -> Iterator[Record]:
        """
        The records with a tag, from a queue offset on.

        The hashes of tags select candidates, then the tags are compared.
        """
        code = tags_code(tag)
        self._catch_up()
        queue = self._queue(topic, queue_id)
        at = max(queue_offset, queue.first_index(self.log.min_offset))
        while at < queue.max_index:
            for index in queue.find_tags(code, at, _TAG_ENTRIES).tolist():
                record = self.log.read(queue.read(index).offset)
                if record.tags == tag:
                    yield record
            at += _TAG_ENTRIES

    def offset_at_time(self, topic: str, queue_id: int, time_ms: int) -> int:
        """
        The first queue offset stored at or after a time; the end if there is none.
        """
        self._catch_up()
        queue = self._queue(topic, queue_id)

        def store_ms(offset: int) -> int:
            return self.log.read(offset).store_ms

        return queue.index_at_time(time_ms, self.log.min_offset, store_ms)

    def queue_range(self, topic: str, queue_id: int) -> tuple[int, int]:
        """
        The first readable queue offset, and the next one of the queue.
        """
        self._catch_up()
        queue = self._queue(topic, queue_id)
        return queue.first_index(self.log.min_offset), queue.max_index

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
        """
        size = self.log.ends.segment_size
        bases = self.log.reader.segments()
        ages = [
            SegmentAge(base, size, self._last_ms(base, base + size)) for base in bases
        ]
        offset = delete_before(ages, retention, now_ms)
        if offset is None:
            return 0
        writer = self.log.writer
        with self._lock:
            removed = self.log.delete_before(offset)
            self.queues.delete_before(offset)
            with writer.metastore.change() as change:
                table = change.read(EPOCHS).cut_prefix(self.log.min_offset - 1)
                change.replace_epochs(table)
            writer.export_epochs(table)
            note_queues(writer, self.queues)
        return removed

    def _last_ms(self, base: int, end: int) -> int | None:
        found = self.log.reader.scan(base, min(end, self.log.end_offset)).finish()
        return None if found.record_start is None else found.record_ms
