"""
Scanning a log: rows as numpy arrays, or the findings alone.

A bad record is not an error of the scan but what it found: the cursor says
where, which rule, and in words.
"""

from __future__ import annotations

import contextlib
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
from pystore.core.results import Cursor
from pystore.errors import CorruptError, InvalidError
from pystore.message.record import Record

if TYPE_CHECKING:
    from pystore._core import CData

__all__ = ["ROWS", "Scan", "check_record"]

ROWS = 8192
"""Rows of one array, as long as nobody says otherwise."""

# Signals are seen between two calls, so one call should not take for ever; and a
# thread maps the next step while this one is scanned.
_STEP_BYTES = 64 * 1024 * 1024


def check_record(
    data: bytes | memoryview, offset: int, checks: Check = NO_CHECK
) -> Record:
    """
    Returns the record that *data* begins with.

    Args:
        data: the record, and maybe more behind it.
        offset: where its first byte is in the log.
        checks: beyond the structure; ``TOPIC`` is not filled here.

    Raises:
        CorruptError: it is not whole, or fails a check.
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

    Every array is new memory and the caller's. One thread at a time. Iteration
    ends at the limit, at the end of what was written, or at a bad record:
    ``cursor`` says which.

    Attributes:
        cursor: where the scan stands; final when the iteration has ended.
    """

    __slots__ = (
        "_cursor",
        "_has_ended",
        "_log",
        "_path",
        "_raises",
        "_rows",
        "_text",
    )

    def __init__(
        self,
        log: CData,
        path: str,
        cursor: CData,
        rows: int,
        *,
        raises: bool = False,
    ) -> None:
        if rows < 1:
            raise InvalidError(f"rows must be at least 1, not {rows}")
        self._log = log
        self._path = path
        self._cursor = cursor
        self._rows = rows
        self._raises = raises
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
        if self._raises and self._cursor.stop >= Stop.SIZE:
            raise CorruptError(self._text, offset=self._cursor.offset, path=self._path)
        raise StopIteration

    def finish(self) -> Cursor:
        """
        Runs to the end without making rows, and returns the cursor.

        Raises:
            CutError: the log was cut below what was read.
            PystoreError: as ``LogReader.scan``.
        """
        limit, step = self._cursor.limit, _STEP_BYTES
        mapping: Future[None] | None = None
        with ThreadPoolExecutor(1, "pystore-populate") as ahead:
            while not self._has_ended:
                start = self._cursor.offset
                self._cursor.limit = min(limit, start + step)
                if start + step < limit and (mapping is None or mapping.done()):
                    # At the end of the interpreter no thread begins any more.
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
                return  # the scan comes there, too, and says why
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
        Where the scan stands, as a value of its own.
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
        )
