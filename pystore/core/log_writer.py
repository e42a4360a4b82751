"""
A log that is open for writing: each method is one call of the core.

`pystore.store` has the order of the steps: opening, cutting, storing bounds.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from pystore.bindings.ffi import (
    NO_OFFSET,
    RECORD_DTYPE,
    LocalAck,
    Scratch,
    borrow,
    fail,
    ffi,
    give_back,
    lib,
    pointer,
    position_room,
    release,
    take,
)
from pystore.core.log_reader import LogReader
from pystore.core.options import LogOptions, Route
from pystore.core.results import Appended, ClockState, CutReport, StartReport
from pystore.errors import InvalidError, PystoreError, StorageError

if TYPE_CHECKING:
    from pathlib import Path

    from pystore._core import CData
    from pystore.core.live_page import LivePage
    from pystore.core.lock import Lock
    from pystore.message.columns import Columns
    from pystore.message.message import Message

__all__ = ["LogHandle", "pack_queues", "parse_queues"]

_TOPIC_SIZE = struct.Struct(">H")


_QUEUE = struct.Struct(">iq")


# A topic in a log may have any bytes; here it must be unchanged.
_ERRORS = "surrogateescape"


def pack_queues(queues: Mapping[tuple[str, int], int]) -> bytes:
    """
    Returns the queue form of (topic, queue id) -> next queue offset.

    Raises:
        InvalidError: a number or a topic that does not fit.
    """
    parts: list[bytes] = []
    for (topic, queue_id), next_offset in queues.items():
        raw = topic.encode("utf-8", _ERRORS)
        try:
            size, numbers = (
                _TOPIC_SIZE.pack(len(raw)),
                _QUEUE.pack(queue_id, next_offset),
            )
        except struct.error as error:  # it does not name the number
            text = f"queue {queue_id} of topic {topic!r} with next offset {next_offset}"
            raise InvalidError(f"{text} does not fit: {error}") from error
        parts += (size, raw, numbers)
    return b"".join(parts)


def parse_queues(raw: bytes) -> dict[tuple[str, int], int]:
    """
    Returns (topic, queue id) -> next queue offset of a queue form.

    Raises:
        InvalidError: the form ends early.
    """
    queues = {}
    at = 0
    try:
        while at < len(raw):
            (size,) = _TOPIC_SIZE.unpack_from(raw, at)
            at += _TOPIC_SIZE.size
            topic = raw[at : at + size].decode("utf-8", _ERRORS)
            at += size
            queue_id, queues_next = _QUEUE.unpack_from(raw, at)
            at += _QUEUE.size
            queues[topic, queue_id] = queues_next
    except struct.error as error:
        raise InvalidError(f"queue form of {len(raw)} bytes ends early") from error
    return queues


_QUEUE_BYTES = 65536

_unpack_appended = struct.Struct("=QQqqQ").unpack
_tuple_new = tuple.__new__

# A look-up in `lib` takes half as long as the call.
_NULL = ffi.NULL
_ps_log_append = lib.ps_log_append

AppendPositions = NDArray[Any]
"""An array of ``POSITION_DTYPE`` that an append fills, one entry per record."""


class LogHandle(LogReader):
    """
    A log, open for writing after ``start``. Any thread may append.

    An append that returns is acknowledged: the bytes are in the page cache, or on disk
    with `LocalAck.SYNCED`. An append that raises wrote nothing, with two exceptions:
    after ``FencedError`` the bytes may be in the log, and after ``PoisonedError`` they
    may be there without being durable. During a cut, appends wait.
    """

    __slots__ = ("after_failure",)

    def __init__(
        self,
        root: str | os.PathLike[str],
        options: LogOptions | None = None,
        live: LivePage | None = None,
    ) -> None:
        super().__init__(root, options, live)
        self.after_failure: Callable[[StorageError], object] | None = None

    def refuse(self, status: int, error: CData) -> NoReturn:
        """
        Raises the error of an append that failed. Before that, ``after_failure`` makes
        certain that nothing that the append wrote comes back (A19).

        Raises:
            PystoreError: of the class of the status.
        """
        try:
            fail(status, error, self.path)
        except StorageError as failure:
            # No other error comes after a byte was written.
            if self.after_failure is not None:
                self.after_failure(failure)
            raise

    def undo(self) -> int | None:
        """
        Zeroes what a failed append left above the end, if that was not done yet.

        Returns:
            Where to cut the log, if the bytes could not be zeroed: the log takes no
            appends any more, and the caller stores an intent; else ``None``.

        Raises:
            ClosedError: the log is closed.
        """
        cut_offset = ffi.new("uint64_t *")
        self._call(lib.ps_log_undo, cut_offset)
        offset: int = cut_offset[0]
        return None if offset == NO_OFFSET else offset

    def start(
        self,
        end: int,
        *,
        synced_end: int,
        confirm_offset: int,
        clean: bool,
        store_ms: int = 0,
        last_offset: int | None = None,
    ) -> StartReport:
        """
        Makes the log ready for appends at *end*; all bytes above it are removed.

        Args:
            end: a record end or a segment base.
            synced_end: the bytes below are durable, at most *end*; the caller checked
                every record from here to the end.
            confirm_offset: the first one.
            clean: all bytes are synced, and all bytes above the end are zero.
            store_ms: the newest store time; new records have none below.
            last_offset: of the last record; ``None``: not known.

        Raises:
            FullError: no space to restore the zeros; the log stays readable.
            StorageError: the system refused.
            InvalidError: started before, not for writing, or no such end.
        """
        start = ffi.new("ps_start *")
        try:
            start.end, start.synced_end = end, synced_end
            start.confirm_offset = confirm_offset
            start.store_ms = store_ms
            start.last_offset = NO_OFFSET if last_offset is None else last_offset
        except (OverflowError, TypeError) as error:  # what cffi raises
            ends = f"{end!r}, {synced_end!r}, {confirm_offset!r}"
            raise InvalidError(f"no ends: {ends}: {error}") from error
        start.clean = int(clean)
        self._call(lib.ps_log_start, start)
        return StartReport(
            start.segments_removed, start.bytes_zeroed, start.bytes_rewritten
        )

    def guard(self, lock: Lock, temporary: Path | None = None) -> None:
        """
        Tells the log what it writes under, before ``start``. At each sync, roll, cut
        and deletion it then makes sure that the store is still its own (A18).

        Args:
            lock: released after the log is closed.
            temporary: a directory of the segments' file system, for segments before
                they have their name; ``None``: ``meta/tmp``.

        Raises:
            InvalidError: started or guarded before, or not for writing.
        """
        where = _NULL if temporary is None else os.fsencode(temporary)
        self._call(lib.ps_log_guard, lock.pointer, where)

    def check_guard(self) -> None:
        """
        Makes sure that the store is still this log's.

        Raises:
            PoisonedError: the lock or the live page is another writer's, or was.
        """
        self._call(lib.ps_log_check_guard)

    def append(
        self,
        form: bytes,
        ack: int = LocalAck.LEADER,
        positions: AppendPositions | None = None,
    ) -> Appended:
        """
        Appends messages in message form, all or none, in one segment.

        Args:
            form: of one message, or of any number back to back.
            ack: the ack to wait for.
            positions: filled with the offsets of each record.

        Raises:
            InvalidError: no message form; the text names the message.
            FullError: no space; nothing was written.
            FencedError: the write authority is gone; if it ended during the write, the
                bytes are in the log.
            BusyError: a cut did not finish, or what a failed append wrote could not be
                removed; reopen the store.
            PoisonedError: a write-back failed.
            StorageError: the system refused.
        """
        room, capacity = _NULL, 0
        if positions is not None:
            room, capacity = position_room(positions)
        try:
            scratch = take()
        except IndexError:  # more calls at once than the pool has
            scratch = Scratch()
        try:
            status = _ps_log_append(
                self._log,
                form,
                len(form),
                ack,
                room,
                capacity,
                scratch.appended,
                scratch.error,
            )
        except TypeError as error:  # what cffi raises
            kind = type(form).__name__
            raise InvalidError(f"no message form but {kind}: {error}") from error
        if status:
            self.refuse(status, scratch.error)
        appended = _tuple_new(Appended, _unpack_appended(scratch.appended_bytes))
        give_back(scratch)
        return appended

    def append_batch(
        self,
        messages: Iterable[Message],
        ack: int = LocalAck.LEADER,
        positions: AppendPositions | None = None,
    ) -> Appended:
        """
        Appends messages in one call of the core, all or none, in one segment.

        Raises:
            PystoreError: as ``append``.
        """
        try:
            each = iter(messages)
        except TypeError as error:  # one message, most likely
            kind = type(messages).__name__
            text = f"messages: {kind} is no iterable of Messages"
            raise InvalidError(text) from error
        try:
            form = b"".join([message.form for message in each])
        except AttributeError as error:  # bytes, most likely
            kind = type(error.obj).__name__
            raise InvalidError(f"messages: {kind} is no Message") from error
        return self.append(form, ack, positions)

    def append_columns(
        self,
        columns: Columns,
        ack: int = LocalAck.LEADER,
        positions: AppendPositions | None = None,
    ) -> Appended:
        """
        Appends columns in order; they may span segments.

        Raises:
            PystoreError: as ``append``; its ``records_appended`` is the number of the
                records that are in the log.
        """
        room, capacity = (_NULL, 0) if positions is None else position_room(positions)
        scratch = borrow()
        scratch.appended.count = 0
        status = lib.ps_log_append_columns(
            self._log,
            columns.struct,
            ack,
            room,
            capacity,
            scratch.appended,
            scratch.error,
        )
        if status:
            try:
                self.refuse(status, scratch.error)
            except PystoreError as error:  # add the number of records
                error.records_appended = scratch.appended.count
                raise
        appended = _tuple_new(Appended, _unpack_appended(scratch.appended_bytes))
        give_back(scratch)
        return appended

    def append_client_batch(
        self,
        route: Route,
        batch: bytes,
        ack: int = LocalAck.LEADER,
        positions: AppendPositions | None = None,
    ) -> Appended:
        """
        Appends RocketMQ's client batch form under one route, all or none.

        Raises:
            PystoreError: as ``append``.
        """
        packed, _topic = route.pack()
        room, capacity = (_NULL, 0) if positions is None else position_room(positions)
        data = pointer(batch)
        scratch = borrow()
        status = lib.ps_log_append_client_batch(
            self._log,
            packed,
            data,
            len(data),
            ack,
            room,
            capacity,
            scratch.appended,
            scratch.error,
        )
        if status:
            self.refuse(status, scratch.error)
        appended = _tuple_new(Appended, _unpack_appended(scratch.appended_bytes))
        give_back(scratch)
        return appended

    def append_raw(self, offset: int, data: bytes | memoryview) -> int:
        """
        Appends bytes of another log unchanged, and returns the received end.

        Args:
            offset: of the first byte: the received end.
            data: any bytes; complete records are checked and published.

        Raises:
            OffsetOutOfRange: *offset* is not the received end.
            CorruptError: a complete record is bad.
            PystoreError: as ``append``.
        """
        received, given = ffi.new("uint64_t *"), pointer(data)
        try:
            self._call(lib.ps_log_append_raw, offset, given, len(given), received)
        finally:
            release(given)
        return int(received[0])

    def roll(self) -> None:
        """
        Ends the active segment and begins the next one.

        Raises:
            PystoreError: as ``append``.
        """
        self._call(lib.ps_log_roll)

    def sync(self, end: int = NO_OFFSET) -> None:
        """
        Waits until all bytes below *end* are on disk; the default is the present end.

        Raises:
            PoisonedError: a write-back failed.
            OffsetOutOfRange: above the published end.
        """
        self._call(lib.ps_log_sync, end)

    def authority(
        self, epoch: int, boottime_ns: int = NO_OFFSET, wall_ms: int = NO_OFFSET
    ) -> None:
        """
        Grants the write authority until a deadline on either clock; 0 revokes it. Only
        a revocation ends `LocalAck.SHARED` as well.

        Raises:
            FencedError: a higher epoch was granted before.
        """
        self._call(lib.ps_log_authority, epoch, boottime_ns, wall_ms)

    def confirm(self, offset: int) -> None:
        """
        Moves the confirm offset up to *offset*, never back.

        Raises:
            OffsetOutOfRange: above the published end.
        """
        self._call(lib.ps_log_confirm, offset)

    def queues_load(self, queues: Mapping[tuple[str, int], int]) -> None:
        """
        Raises next queue offsets to these: (topic, queue id) -> next offset.
        """
        form = pack_queues(queues)
        self._call(lib.ps_log_queues_load, form, len(form))

    def queues_note(self, rows: NDArray[Any]) -> None:
        """
        Raises next queue offsets above those of rows scanned with topics, in log order.
        A queue begins anew at a row with queue offset 0.
        """
        if rows.dtype != RECORD_DTYPE:
            raise InvalidError(f"rows of numpy {rows.dtype} are no rows of a scan")
        whole = np.ascontiguousarray(rows)
        data = ffi.from_buffer("ps_record[]", whole)
        self._call(lib.ps_log_queues_note, data, len(whole))

    def queues_reset(self) -> None:
        """
        Forgets all queues.
        """
        self._call(lib.ps_log_queues_reset)

    def queues_fill(self) -> tuple[dict[tuple[str, int], int], int]:
        """
        Returns (topic, queue id) -> next queue offset, and the end of the log then.
        """
        return self._queues(changed=False)

    def queues_take(self) -> tuple[dict[tuple[str, int], int], int]:
        """
        As `queues_fill`, of the queues that changed since the last call. Loaded and
        noted queues count as changed, and so do all others after a cut.
        """
        return self._queues(changed=True)

    def _queues(self, *, changed: bool) -> tuple[dict[tuple[str, int], int], int]:
        size, end = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        size[0] = _QUEUE_BYTES
        while True:
            capacity = size[0]
            form = ffi.new("uint8_t[]", capacity)
            scratch = borrow()
            status = lib.ps_log_queues_fill(
                self._log, changed, form, capacity, size, end, scratch.error
            )
            if status and status != lib.PS_E_SPACE:
                fail(status, scratch.error, self.path)
            give_back(scratch)
            if not status:
                return parse_queues(bytes(ffi.buffer(form, size[0]))), end[0]
            size[0] += _QUEUE_BYTES  # queues may be added meanwhile

    def cut_begin(self, offset: int) -> None:
        """
        Begins a cut at *offset*: appends and syncs wait.

        Raises:
            InvalidError: neither a record end nor a segment base.
        """
        self._call(lib.ps_log_cut_begin, offset)

    def cut_publish(self, generation: int) -> None:
        """
        Publishes the cut to readers in the live page.
        """
        self._call(lib.ps_log_cut_publish, generation)

    def cut_apply(self) -> CutReport:
        """
        Removes segments and zeroes bytes above the cut, and resets the queues.

        Raises:
            StorageError: the system refused; no appends until reopened.
        """
        report = ffi.new("ps_cut_report *")
        self._call(lib.ps_log_cut_apply, report)
        return CutReport(report.bytes_cut, report.segments_removed)

    def cut_end(self, is_done: bool) -> None:
        """
        Ends a cut. If it is done, durable intent included, appends continue. If it
        only began, it is dropped. If it was published, the log takes no appends until
        it is reopened.
        """
        self._call(lib.ps_log_cut_end, int(is_done))

    def hold(self) -> int:
        """
        Holds back appends, syncs and cuts of other threads, with the log synced, until
        this thread calls ``cut_end(False)``.

        Returns:
            The end of the log meanwhile.

        Raises:
            PoisonedError: a write-back failed.
            InvalidError: this thread has begun a cut.
        """
        end = ffi.new("uint64_t *")
        self._call(lib.ps_log_hold, end)
        return int(end[0])

    def clock(self, *, is_accepted: bool = False) -> ClockState:
        """
        Returns the state of the clock that stamps records.

        Args:
            is_accepted: the wall clock counts as right from now on, although
                ``CLOCK_BOOTTIME`` does not confirm its step.

        Raises:
            ClosedError: the log is closed, or not started.
        """
        state = ffi.new("ps_clock_state *")
        self._call(lib.ps_log_clock, int(is_accepted), state)
        return ClockState(state.store_ms, state.now_ms, state.ahead_ms)

    def begin_at(self, base: int) -> None:
        """
        Moves the beginning of a log that ends at 0 to the base of a segment.

        Raises:
            InvalidError: the log is not empty, or no segment begins there.
            PystoreError: as ``append``.
        """
        self._call(lib.ps_log_begin_at, base)

    def install(self, base: int) -> None:
        """
        Gives the log a repaired segment: the file ``BASE.pull`` in the directory of new
        segments takes the name of a segment, or becomes the segment before the first
        one. The caller has given the damaged file another name, if it is to stay.

        Raises:
            InvalidError: no synced segment of the log begins at *base*, and none can;
                or the file has another size.
            StorageError: the system refused.
        """
        self._call(lib.ps_log_install, base)

    def delete_before(self, offset: int) -> int:
        """
        Deletes whole segments that end at or below *offset*, never the active.

        Returns:
            How many.
        """
        removed = ffi.new("uint32_t *")
        self._call(lib.ps_log_delete_before, offset, removed)
        count: int = removed[0]
        return count
