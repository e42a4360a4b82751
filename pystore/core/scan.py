"""
Scanning a log: rows as numpy arrays, or the cursor alone.

A bad record is a result of the scan, not an error: the cursor has its offset, the
failed check, and a text.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from pystore.bindings.ffi import (
    NO_CHECK,
    NO_OFFSET,
    RECORD_DTYPE,
    Check,
    Stop,
    borrow,
    check,
    ffi,
    give_back,
    lib,
    pointer,
    unpack_record,
)
from pystore.core.results import Cursor, Ends
from pystore.errors import CorruptError, InvalidError
from pystore.message.record import Record

if TYPE_CHECKING:
    from pystore._core import CData

__all__ = ["ROWS", "Scan", "check_record"]

ROWS = 8192
"""The default number of rows of one array."""

# Python handles signals between two calls, so a call must be short; and a thread maps
# the next step during the scan of this one.
_STEP_BYTES = 64 * 1024 * 1024


def check_record(
    data: bytes | memoryview, offset: int, checks: Check = NO_CHECK
) -> Record:
    """
    Returns the record at the beginning of *data*.

    Args:
        data: the record, perhaps followed by other bytes.
        offset: of its first byte in the log.
        checks: beyond the structure; ``TOPIC`` has no effect.

    Raises:
        CorruptError: the record is not whole, or fails a check.
    """
    given = pointer(data)
    scratch = borrow()
    status = lib.ps_record_check(
        given, len(given), offset, checks, scratch.record, scratch.error
    )
    check(status, scratch.error)
    size = scratch.record.size
    record = Record.of(unpack_record(scratch.record_bytes), bytes(data[:size]))
    give_back(scratch)
    return record


class Scan:
    """
    An iterator over the rows of a range, one numpy array after the other.

    Each array is new memory. One thread at a time. The iteration ends at the limit, at
    the end of the log, or at a bad record: see ``cursor.stop``.

    Attributes:
        cursor: the state of the scan; final after the iteration.
    """

    __slots__ = (
        "_cursor",
        "_ends",
        "_has_ended",
        "_log",
        "_on_bad_start",
        "_path",
        "_rows",
        "_start",
        "_text",
    )

    def __init__(
        self,
        log: CData,
        path: str,
        cursor: CData,
        rows: int,
        *,
        ends: Ends | None = None,
        on_bad_start: Callable[[int], object] | None = None,
    ) -> None:
        if rows < 1:
            raise InvalidError(f"rows must be at least 1, not {rows}")
        self._log = log
        self._path = path
        self._cursor = cursor
        self._rows = rows
        self._ends = ends
        self._start = cursor.offset
        self._on_bad_start = on_bad_start
        self._text = ""
        self._has_ended = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> NDArray[Any]:
        if self._has_ended:
            self._end()
        rows = np.empty(self._rows, RECORD_DTYPE)
        count = self._step(ffi.from_buffer("ps_record[]", rows), self._rows)
        self._has_ended = self._cursor.stop != Stop.ROWS
        if not count and self._has_ended:
            self._end()
        return rows[:count]

    def _end(self) -> NoReturn:
        offset = self._cursor.offset
        if self._ends is not None and (text := self._damage(self._ends)):
            if offset == self._start and self._on_bad_start is not None:
                self._on_bad_start(offset)
            raise CorruptError(text, offset=offset, path=self._path)
        raise StopIteration

    def _damage(self, ends: Ends) -> str:
        """
        Why the scan ended, if it was because of damage; else empty.

        The core reads no further than the end of the log, where a record ends: zeros
        below it are damage, and so is a last record that ends above it.
        """
        found = self._cursor
        if found.stop >= Stop.SIZE:
            return self._text
        if found.stop == Stop.ZERO:
            return (
                f"{self._path}: nothing was written at offset {found.offset}, but the "
                "log continues after it"
            )
        end, is_cut = ends.published_end, found.seen != ends.cut_generation + 1
        if found.offset >= end or found.limit < end or is_cut:
            return ""
        return (
            f"{self._path}: no record ends at {end}: the size of the last one, at "
            f"offset {found.offset}, is wrong"
        )

    def finish(self) -> Cursor:
        """
        Scans to the end without rows, and returns the cursor.

        Raises:
            CutError: the log was cut below the scanned bytes.
            PystoreError: as ``LogReader.scan``.
        """
        limit, step = self._cursor.limit, _STEP_BYTES
        mapping: Future[None] | None = None
        with ThreadPoolExecutor(1, "pystore-populate") as ahead:
            while not self._has_ended:
                start = self._cursor.offset
                self._cursor.limit = min(limit, start + step)
                if start + step < limit and (mapping is None or mapping.done()):
                    # At its end the interpreter starts no thread.
                    with contextlib.suppress(RuntimeError):
                        mapping = ahead.submit(self._populate, start + step, step)
                self._step(ffi.NULL, 0)
                stop = self._cursor.stop
                at_step = stop == Stop.LIMIT and self._cursor.limit < limit
                self._has_ended = not at_step and stop != Stop.ROWS
                if at_step and self._cursor.offset == start:
                    step *= 2  # one blank record can be as long as a segment
        self._cursor.limit = limit
        return self.cursor

    def _populate(self, offset: int, size: int) -> None:
        error, mapped = ffi.new("ps_error *"), ffi.new("uint64_t *")
        while size > 0:
            mapped[0] = size
            if lib.ps_log_populate(self._log, offset, mapped, error):
                return  # the scan gets the same error later
            offset, size = offset + mapped[0], size - mapped[0]

    def _step(self, rows: CData, capacity: int) -> int:
        scratch = borrow()
        status = lib.ps_log_scan(
            self._log, self._cursor, rows, capacity, scratch.count, scratch.error
        )
        check(status, scratch.error, self._path)
        if self._cursor.stop >= Stop.SIZE:
            self._text = ffi.string(scratch.error.text).decode("utf-8", "replace")
        count: int = scratch.count[0]
        give_back(scratch)
        return count

    @property
    def cursor(self) -> Cursor:
        """
        The state of the scan, as a copy.
        """
        found = self._cursor
        start = found.record_start
        return Cursor(
            offset=found.offset,
            stop=Stop(found.stop),
            record_start=None if start == NO_OFFSET else start,
            record_end=found.record_end,
            record_ms=found.record_ms,
            records=found.records,
            unproved=found.unproved,
            blanks=found.blanks,
            text=self._text,
            differs=found.differs,
        )
