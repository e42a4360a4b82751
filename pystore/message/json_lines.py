"""
Records of a block as lines of JSON, made by the core.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pystore.bindings.ffi import RECORD_DTYPE, borrow, check, ffi, give_back, lib

__all__ = ["JsonLines"]

_BUFFER_BYTES = 1 << 20


class JsonLines:
    """
    A buffer of lines, each a record as a JSON object with RocketMQ's names. Not for
    several threads.

    Args:
        bodies: add the body: as ``body`` if it is UTF-8, else as ``bodyBase64``.
        left_flags: a record with one of these flags gets no line.
    """

    def __init__(self, *, bodies: bool, left_flags: int = 0) -> None:
        self._options = lib.PS_JSON_BODIES if bodies else 0
        self._left_flags = left_flags
        self._lines = ffi.new("ps_json_lines *")
        self._grow(_BUFFER_BYTES)

    def _grow(self, capacity: int) -> None:
        self._memory = memoryview(bytearray(capacity))
        self._pointer = ffi.from_buffer("uint8_t[]", self._memory)
        self._lines.bytes, self._lines.capacity = self._pointer, capacity

    def write(
        self, rows: NDArray[Any], data: memoryview, offset: int
    ) -> tuple[memoryview, int]:
        """
        Writes the first of *rows* until the buffer is full or a record gets no line.

        A record gets no line if its topic or properties are not UTF-8, or if it has
        more than 64 properties.

        Args:
            rows: of a scan.
            data: bytes of the log that hold all of these records.
            offset: of the first byte.

        Returns:
            The lines, valid until the next call, and for how many rows. No line: the
            first row gets none.

        Raises:
            InvalidError: a record is not within these bytes.
        """
        rows = np.ascontiguousarray(rows, RECORD_DTYPE)
        # cffi's pointers keep the memory alive; the struct keeps no pointer alive.
        memory = (
            ffi.from_buffer("ps_record[]", rows),
            ffi.from_buffer("uint8_t[]", data),
        )
        given = ffi.new("ps_rows *", (*memory, len(data), offset, len(rows), 0))
        while True:
            scratch = borrow()
            status = lib.ps_rows_json(
                given, self._options, self._left_flags, self._lines, scratch.error
            )
            check(status, scratch.error)
            give_back(scratch)
            lines = self._lines
            if lines.count or lines.is_left or not len(rows):
                return self._memory[: lines.size], lines.count
            self._grow(lines.needed)
