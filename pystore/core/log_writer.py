"""
A log that is open for writing: each method is one call of the core.

The policy of opening, cutting and keeping bounds stands above, in ``log``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

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
from pystore.core.options import Route
from pystore.core.results import Appended, CutReport, StartReport
from pystore.errors import InvalidError, PystoreError

if TYPE_CHECKING:
    from pystore.message.columns import Columns
    from pystore.message.message import Message

__all__ = ["LogHandle", "pack_queues", "parse_queues"]

_TOPIC_SIZE = struct.Struct(">H")


_QUEUE = struct.Struct(">iq")


# A topic in a log may be any bytes; here it must come back as it was.
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
        except struct.error as error:  # the number is not known to it
            text = f"queue {queue_id} of topic {topic!r} with next offset {next_offset}"
            raise InvalidError(f"{text} does not fit: {error}") from error
        parts += (size, raw, numbers)
    return b"".join(parts)


def parse_queues(raw: bytes) -> dict[tuple[str, int], int]:
    """
    Returns (topic, queue id) -> next queue offset of a queue form.

    Raises:
        InvalidError: it ends early.
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

# Looking a function up in `lib` takes half as long as calling it.
_NULL = ffi.NULL
_ps_log_append = lib.ps_log_append

AppendPositions = NDArray[Any]
"""An array of ``POSITION_DTYPE`` that an append fills, one entry per record."""


class LogHandle(LogReader):
    """
    A log, open for writing once it was started. Any thread may append.

    Every append is acknowledged when it returns: by then the bytes are in the
    page cache, or on disk if that was asked for. One that raises is not there,
    but after ``FencedError`` it may be, and after ``PoisonedError`` it may be
    without being proven durable. While a cut runs, appends wait.
    """

    __slots__ = ()

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
        Makes the log ready for appends at *end*; nothing above it stays.

        Args:
            end: a record end or a segment base.
            synced_end: what is durable for sure, at most *end*; every record
                from here to the end was checked.
            confirm_offset: to begin with.
            clean: all is synced and nothing is above the end.
            store_ms: the newest store time; new records get none below.
            last_offset: of the last record, if it is known.

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
            ack: what to wait for.
            positions: filled with where each record went.

        Raises:
            InvalidError: no message form; the text says which message.
            FullError: no space; nothing of it is there.
            FencedError: the write authority is gone; if it went while the bytes
                were written, they are there.
            BusyError: a cut did not finish; open the store again.
            PoisonedError: a write-back failed.
            StorageError: the system refused.
        """
        room, capacity = _NULL, 0
        if positions is not None:
            room, capacity = position_room(positions)
        try:
            scratch = take()
        except IndexError:  # more calls run at once than ever before
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
            fail(status, scratch.error, self.path)
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
        Appends messages in one crossing, all or none, in one segment.

        Raises:
            PystoreError: as ``append``.
        """
        try:
            form = b"".join([message.form for message in messages])
        except AttributeError as error:  # bytes, most likely
            raise InvalidError(f"a batch is made of Messages: {error}") from error
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
            PystoreError: as ``append``; ``records_appended`` of it says how many
                records are there all the same.
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
                fail(status, scratch.error, self.path)
            except PystoreError as error:  # told how far it came
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
        appended = ffi.new("ps_appended *")
        data = pointer(batch)
        self._call(
            lib.ps_log_append_client_batch,
            packed,
            data,
            len(data),
            ack,
            room,
            capacity,
            appended,
        )
        return Appended._make(_unpack_appended(ffi.buffer(appended)))

    def append_raw(self, offset: int, data: bytes | memoryview) -> int:
        """
        Appends bytes of another log as they are, and returns the received end.

        Args:
            offset: where they belong: the received end.
            data: any bytes; records that get whole are checked and published.

        Raises:
            OffsetOutOfRange: they belong elsewhere.
            CorruptError: a record that got whole is bad.
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
        Waits until all below *end* is on disk; without one, all of now.

        Raises:
            PoisonedError: a write-back failed.
            OffsetOutOfRange: above the published end.
        """
        self._call(lib.ps_log_sync, end)

    def authority(
        self, epoch: int, boottime_ns: int = NO_OFFSET, wall_ms: int = NO_OFFSET
    ) -> None:
        """
        Grants the right to append until either clock passes; 0 takes it away, and
        alone ends `LocalAck.SHARED`, too.

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
        Raises next queue offsets above those of rows scanned with topics.
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
        Returns (topic, queue id) -> next queue offset, and the end it belongs to.
        """
        size, end = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        size[0] = _QUEUE_BYTES
        while True:
            capacity = size[0]
            form = ffi.new("uint8_t[]", capacity)
            scratch = borrow()
            status = lib.ps_log_queues_fill(
                self._log, form, capacity, size, end, scratch.error
            )
            if status and status != lib.PS_E_SPACE:
                fail(status, scratch.error, self.path)
            give_back(scratch)
            if not status:
                return parse_queues(bytes(ffi.buffer(form, size[0]))), end[0]
            size[0] += _QUEUE_BYTES  # some may be added meanwhile

    def cut_begin(self, offset: int) -> None:
        """
        Holds back appends and syncs for a cut at *offset*.

        Raises:
            BusyError: bytes above it are held.
            InvalidError: no record end and no segment base.
        """
        self._call(lib.ps_log_cut_begin, offset)

    def cut_publish(self, generation: int) -> None:
        """
        Tells readers through the live page.
        """
        self._call(lib.ps_log_cut_publish, generation)

    def cut_apply(self) -> CutReport:
        """
        Removes and zeroes what is above the cut; the queues are forgotten.

        Raises:
            StorageError: the system refused; no appends until reopened.
        """
        report = ffi.new("ps_cut_report *")
        self._call(lib.ps_log_cut_apply, report)
        return CutReport(report.bytes_cut, report.segments_removed)

    def cut_end(self, is_done: bool) -> None:
        """
        Lets appends go on if all is done, the durable intent included; else a cut
        that was only begun is forgotten, and one that was published leaves a log
        that takes no appends until it is opened again.
        """
        self._call(lib.ps_log_cut_end, int(is_done))

    def begin_at(self, base: int) -> None:
        """
        Lets a log that ends at 0 begin at the base of a segment.

        Raises:
            InvalidError: the log is not empty, or no segment begins there.
            PystoreError: as ``append``.
        """
        self._call(lib.ps_log_begin_at, base)

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
