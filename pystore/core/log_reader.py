"""
The reading side of a log handle: each method is one call of the core.

The core checks the arguments. Results are copied from the core's memory, except
views, which keep their memory alive.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Self

from pystore.bindings.ffi import (
    NO_CHECK,
    NO_OFFSET,
    Check,
    Scratch,
    Stop,
    borrow,
    check,
    fail,
    ffi,
    give_back,
    lib,
    take,
    unpack_record,
    view,
)
from pystore.core.live_page import packed_words
from pystore.core.options import LogOptions
from pystore.core.results import Block, Ends, IllRange, ends_of
from pystore.core.scan import ROWS, Scan
from pystore.errors import ForkedError, InvalidError, check_integers
from pystore.message.record import Record

if TYPE_CHECKING:
    from types import TracebackType

    from pystore._core import CData
    from pystore.core.live_page import LivePage, LiveWords

__all__ = ["BLOCK_BYTES", "LogReader"]

BLOCK_BYTES = 4 * 1024 * 1024
"""The default size of a block."""

_SEGMENTS = 256
_tuple_new = tuple.__new__
_SIZE = Record._fields.index("size")
_TOPIC_BYTES = 65536

# A look-up in `lib` takes half as long as the call.
_BODY = int(Check.BODY)
_ps_log_ends = lib.ps_log_ends
_ps_log_read = lib.ps_log_read
_ps_log_read_entry = lib.ps_log_read_entry


class LogReader:
    """
    A log, open for reading. Any thread may call, also while another closes.

    After ``close`` every call raises ``ClosedError``, in a forked child
    ``ForkedError``; existing views stay readable.

    Args:
        root: the store directory, which holds ``commitlog/``.
        options: of the log.
        live: the live page with the published end; it stays mapped as long as the log
            needs it.

    Attributes:
        path: of the store.
        has_own_end: whether it was opened with an end of its own: another program may
            have appended since.

    Raises:
        NotAStoreError: the directory is missing, or a file is no segment.
        InvalidError: options that no log could have.
        StorageError: the system refused.
    """

    __slots__ = ("_log", "_topics", "has_own_end", "path")

    def __init__(
        self,
        root: str | os.PathLike[str],
        options: LogOptions | None = None,
        live: LivePage | None = None,
    ) -> None:
        self.path = os.fspath(root)
        self.has_own_end = live is None
        page = ffi.NULL if live is None else live.pointer
        found = ffi.new("ps_log **")
        scratch = borrow()
        status = lib.ps_log_open(
            os.fsencode(self.path),
            (options or LogOptions()).pack(),
            page,
            found,
            scratch.error,
        )
        check(status, scratch.error, self.path)
        give_back(scratch)

        # Freed with the last reference; a running call may have it. It keeps the page
        # mapped, and a view keeps what it needs of the log, since the garbage collector
        # ends a cycle in any order.
        self._log: CData = ffi.gc(found[0], lib.ps_log_free)
        self._topics: dict[int, str] = {}

    def close(self) -> None:
        """
        Waits for running calls, syncs if possible, and closes. Calling it again is
        allowed. In a forked child it does nothing.

        Raises:
            StorageError: the last sync failed; the log is closed.
            PoisonedError: an earlier sync failed; the log is closed.
        """
        try:
            self._call(lib.ps_log_close)
        except ForkedError:  # a `with` block of the parent also ends in the child
            return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _call(self, function: Callable[..., int], *arguments: object) -> None:
        """
        Calls a function that is not hot.
        """
        scratch = borrow()
        try:
            status = function(self._log, *arguments, scratch.error)
        except (OverflowError, TypeError) as error:  # what cffi raises
            given = ", ".join(repr(argument) for argument in arguments)
            text = f"{function.__name__} cannot take ({given}): {error}"
            raise InvalidError(text) from error
        if status:
            fail(status, scratch.error, self.path)
        give_back(scratch)

    @property
    def pointer(self) -> CData:
        """
        The ``ps_log``, for other calls of the core.
        """
        return self._log

    def limit(self, end: int) -> None:
        """
        Sets the end of a log without a live page, or until a writer begins. Behind the
        last segment it makes the missing ones ill, if the reader serves an ill log.

        Raises:
            InvalidError: the log is open for writing.
            OffsetOutOfRange: not within the segments.
        """
        self._call(lib.ps_log_limit, end)

    def await_writer(self, seen: LiveWords) -> None:
        """
        Makes a reader whose live page does not bind follow the page as soon as a writer
        begins. Until then `limit` sets the end. Called before any other method.

        Args:
            seen: the words of the page, with the boot and the mount of this process.

        Raises:
            InvalidError: the log is open for writing, or has no live page.
        """
        self._call(lib.ps_log_await, packed_words(seen, self.path))
        self.has_own_end = True

    def ends(self) -> Ends:
        """
        Returns the ends of the log.
        """
        scratch = borrow()
        status = _ps_log_ends(self._log, scratch.ends, scratch.error)
        if status:
            fail(status, scratch.error, self.path)
        ends = ends_of(scratch.ends_bytes)
        give_back(scratch)
        return ends

    def segments(self) -> list[int]:
        """
        Returns the base offsets of the segments, oldest first, with those of `ill`.
        """
        return self._bases(lib.ps_log_segments)

    def ill(self) -> tuple[IllRange, ...]:
        """
        Returns the ranges whose bytes are not there, by offset: of segments that are
        missing, short or unreadable. Empty unless ``options.serves_ill``.

        A read there raises `CorruptError`, a scan stops at it with
        ``Stop.UNREADABLE``; all other bytes can be read. A segment that is restored is
        seen by the next opening.
        """
        found: list[IllRange] = []
        offset, end = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        while True:
            scratch = borrow()
            after = found[-1].end if found else 0
            status = lib.ps_log_ill(self._log, after, offset, end, scratch.error)
            check(status, scratch.error, self.path)
            if offset[0] == NO_OFFSET:
                give_back(scratch)
                return tuple(found)
            text = ffi.string(scratch.error.text).decode("utf-8", "replace")
            errno = scratch.error.system_errno or None
            give_back(scratch)
            path, _, reason = text.partition(": ")
            found.append(IllRange(path, offset[0], end[0], reason, errno))

    def stranded(self) -> list[int]:
        """
        Returns the base offsets of the stranded segments: empty, and after a missing
        one. A start for writing removes them (A2).
        """
        return self._bases(lib.ps_log_stranded)

    def _bases(self, fill: Callable[..., int]) -> list[int]:
        count = ffi.new("uint32_t *")
        capacity = _SEGMENTS
        while True:
            bases = ffi.new("uint64_t[]", capacity)
            self._call(fill, bases, capacity, count)
            if count[0] <= capacity:
                found: list[int] = ffi.unpack(bases, count[0])
                return found
            capacity = count[0] + _SEGMENTS  # segments may be added meanwhile

    def read(self, offset: int, *, body_crc: bool = True) -> Record:
        """
        Returns a copy of the record at *offset*, after a check of its structure and of
        its body.

        Args:
            offset: of its first byte.
            body_crc: whether to compare the body with its CRC.

        Raises:
            OffsetOutOfRange: below the minimum offset or not below the end.
            CorruptError: no whole record is there, or its body was changed.
            CutError: the log was cut meanwhile.
        """
        scratch = borrow()
        data, size = scratch.data, Scratch.DATA_SIZE
        while True:
            try:
                status = _ps_log_read(
                    self._log,
                    offset,
                    _BODY if body_crc else 0,
                    data,
                    size,
                    scratch.count,
                    scratch.record,
                    scratch.error,
                )
            except (OverflowError, TypeError) as error:  # what cffi raises
                raise InvalidError(f"offset {offset!r}: {error}") from error
            if status != lib.PS_E_SPACE:
                break
            size = scratch.count[0]
            data = ffi.new("uint8_t[]", size)
        if status:
            fail(status, scratch.error, self.path)
        record = Record.of(
            unpack_record(scratch.record_bytes),
            ffi.buffer(data, scratch.count[0])[:],
        )
        give_back(scratch)
        return record

    def read_entry(self, file: int, at: int, *, body_crc: bool = True) -> Record | None:
        """
        Returns the record of an entry of a consume queue, read in one call.

        Args:
            file: an open descriptor of the queue's file.
            at: the position of the entry in the file.
            body_crc: as in `read`.

        Returns:
            ``None`` if it fails: reads of entry and record one by one raise the error.
        """
        try:
            scratch = take()
        except IndexError:  # more calls at once than the pool has
            scratch = Scratch()
        status = _ps_log_read_entry(
            self._log,
            file,
            at,
            _BODY if body_crc else 0,
            scratch.data,
            Scratch.DATA_SIZE,
            scratch.count,
            scratch.record,
            scratch.error,
        )
        if status:
            give_back(scratch)
            return None
        fields = unpack_record(scratch.record_bytes)
        data = scratch.data_bytes[: fields[_SIZE]]
        give_back(scratch)
        return _tuple_new(Record, fields + (data,))  # noqa: RUF005, a fifth faster

    def scan(
        self,
        from_offset: int,
        to_offset: int = NO_OFFSET,
        checks: Check = NO_CHECK,
        *,
        rows: int = ROWS,
        raises: bool = False,
        on_bad_start: Callable[[int], object] | None = None,
    ) -> Scan:
        """
        Returns an iterator over the rows of a range.

        Args:
            from_offset: the start of a record.
            to_offset: the scan ends before a record that ends above it.
            checks: what to check beyond the structure, and what to fill.
            rows: of one array; ``scan(...).finish()`` makes none.
            raises: whether the iteration raises at a bad record; else only the cursor
                has the stop.
            on_bad_start: called with *from_offset* before the iteration raises because
                of a bad record there; it may raise another error.

        Raises:
            InvalidError: no offset, no checks, or no rows.
            OffsetOutOfRange, CutError, StorageError: while iterating.
        """
        cursor = ffi.new("ps_cursor *")
        try:
            cursor.offset = cursor.record_end = from_offset
            cursor.limit = to_offset
            cursor.checks = checks
        except (OverflowError, TypeError) as error:  # what cffi raises
            text = f"from_offset {from_offset!r}, to_offset {to_offset!r}, "
            raise InvalidError(f"{text}checks {checks!r}: {error}") from error
        check_integers(rows=rows)
        cursor.record_start = NO_OFFSET
        cursor.stop = Stop.ROWS
        return Scan(
            self._log,
            self.path,
            cursor,
            rows,
            ends=self.ends() if raises else None,
            on_bad_start=on_bad_start,
        )

    def resync(self, offset: int, limit: int = NO_OFFSET) -> int | None:
        """
        Returns the first offset, from *offset* on, where a record or a blank record
        proves its place by its magic, its lengths and its embedded offset.

        Args:
            offset: any byte of a segment; the search ends with the segment.
            limit: the record ends at or below it.

        Returns:
            ``None``: there is none. The caller checks the checksums.

        Raises:
            OffsetOutOfRange: no segment is there.
        """
        found = ffi.new("uint64_t *")
        self._call(lib.ps_log_resync, offset, limit, found)
        return None if found[0] == NO_OFFSET else found[0]

    def acquire(self, offset: int, size_max: int = BLOCK_BYTES) -> memoryview:
        """
        Returns bytes from *offset* on, read-only and without a copy.

        The view and its slices show the same bytes as long as they live, also when the
        log is cut below their end, or their segment is deleted. If another program
        makes the file shorter, or the disk loses the bytes, touching them ends the
        process with SIGBUS: `copy` has an error instead.

        Args:
            offset: any byte below the end.
            size_max: in bytes; the view ends at the end of the segment or of the log.

        Raises:
            OffsetOutOfRange: below the minimum offset or not below the end.
            CorruptError: the file is shorter than it should be.
            CutError: the log was cut meanwhile.
        """
        block = ffi.new("ps_block *")
        self._call(lib.ps_block_acquire, offset, size_max, block)
        return view(block)

    def copy(self, offset: int, size_max: int = BLOCK_BYTES) -> bytes:
        """
        Returns a copy of the bytes from *offset* on, read without a mapping.

        Args:
            offset: any byte below the end.
            size_max: in bytes; the copy ends at the end of the segment or of the log.

        Raises:
            OffsetOutOfRange: below the minimum offset or not below the end.
            CorruptError: the file is shorter than it should be.
            CutError: the log was cut meanwhile.
            StorageError: the system refused.
        """
        check_integers(offset=offset, size_max=size_max)
        if size_max < 1:
            raise InvalidError(f"a block of {size_max} bytes", offset=offset)
        buffer = bytearray(min(size_max, max(0, self.ends().published_end - offset)))
        copied = ffi.new("uint64_t *")
        self._call(
            lib.ps_log_copy,
            offset,
            len(buffer),
            ffi.from_buffer("uint8_t[]", buffer),
            copied,
        )
        return bytes(memoryview(buffer)[: copied[0]])

    def blocks(
        self,
        from_offset: int,
        to_offset: int | None = None,
        size_max: int = BLOCK_BYTES,
        *,
        is_copied: bool = False,
    ) -> Iterator[Block]:
        """
        Yields the bytes of a range block by block, without a copy.

        Args:
            from_offset: any byte below the end.
            to_offset: exclusive; ``None``: the present end.
            size_max: of one block; blocks never span segments.
            is_copied: whether the blocks are copies, as of ``copy``.

        Raises:
            OffsetOutOfRange, CorruptError, CutError: as ``acquire``.
            StorageError: as ``copy``.
        """
        end = self.ends().published_end if to_offset is None else to_offset
        offset = from_offset
        while offset < end:
            size = min(size_max, end - offset)
            found = (
                memoryview(self.copy(offset, size))
                if is_copied
                else self.acquire(offset, size)
            )
            yield Block(offset, found)
            offset += len(found)

    def topic(self, topic_id: int) -> str:
        """
        Returns the topic with *topic_id*, as in rows.

        Bytes that are not UTF-8 become surrogates, as in file names.

        Raises:
            OffsetOutOfRange: no such id.
        """
        known = self._topics.get(topic_id)
        if known is None:
            name = ffi.new("uint8_t[]", _TOPIC_BYTES)
            size = ffi.new("uint32_t *")
            self._call(lib.ps_log_topic, topic_id, name, _TOPIC_BYTES, size)
            raw = bytes(ffi.buffer(name, size[0]))
            known = self._topics[topic_id] = raw.decode("utf-8", "surrogateescape")
        return known

    def unchanged(self, generation: int, end: int) -> None:
        """
        Returns if the bytes read below *end* are still part of the log.

        Args:
            generation: the cut generation before the read.
            end: of the read bytes.

        Raises:
            CutError: the log was cut below it.
        """
        self._call(lib.ps_log_unchanged, generation, end)
