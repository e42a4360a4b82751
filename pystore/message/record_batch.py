"""
Many records of a block at once: the place of a property, and copies for another log.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pystore.bindings.ffi import RECORD_DTYPE, borrow, check, ffi, give_back, lib

__all__ = ["find_property", "move_records"]


def find_property(
    data: memoryview, offset: int, rows: NDArray[Any], name: str
) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """
    Returns where the value of a property begins in *data*, and its size, for each
    row; the size is 0 for a record without it.

    Args:
        data: bytes of a log that hold all of these records.
        offset: of the first byte.
        rows: of a scan.
        name: of the property.

    Raises:
        InvalidError: a record is not within these bytes.
    """
    count = len(rows)
    rows = np.ascontiguousarray(rows)
    at, sizes = np.empty(count, np.uint64), np.empty(count, np.uint32)
    scratch = borrow()
    status = lib.ps_records_property(
        ffi.from_buffer("uint8_t[]", data),
        len(data),
        offset,
        ffi.from_buffer("ps_record[]", rows),
        count,
        name.encode(),
        ffi.from_buffer("uint64_t[]", at),
        ffi.from_buffer("uint32_t[]", sizes),
        scratch.error,
    )
    check(status, scratch.error)
    give_back(scratch)
    return at, sizes


def move_records(
    data: memoryview,
    offset: int,
    source: NDArray[np.uint64],
    target: NDArray[np.uint64],
    size: int,
) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """
    Returns copies of records back to back, made for another log, and their rows.

    Each record is checked first; its copy has a new offset and a new property CRC.

    Args:
        data: bytes of a log that hold all of these records.
        offset: of the first byte.
        source: offsets of the records.
        target: their offsets in the other log.
        size: of all copies together.

    Raises:
        CorruptError: a record is not whole.
        InvalidError: it is not within these bytes, or *size* is too small.
    """
    count = len(source)
    copies, rows = np.empty(size, np.uint8), np.empty(count, RECORD_DTYPE)
    source, target = (np.ascontiguousarray(one, "=u8") for one in (source, target))
    scratch = borrow()
    status = lib.ps_records_move(
        ffi.from_buffer("uint8_t[]", data),
        len(data),
        offset,
        ffi.from_buffer("uint64_t[]", source),
        ffi.from_buffer("uint64_t[]", target),
        count,
        ffi.from_buffer("uint8_t[]", copies),
        size,
        ffi.from_buffer("ps_record[]", rows),
        scratch.error,
    )
    check(status, scratch.error)
    give_back(scratch)
    return copies, rows
