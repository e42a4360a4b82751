"""
The seam to the C core: no other module imports ``_core``.

Errors: a C call returns a status and fills an error in the caller's memory;
``check`` makes one exception of the two. Scratch: a pool reuses the structs that a
call fills. It is a plain list, whose ``pop`` and ``append`` are atomic, so a hot call
allocates nothing and any thread may call. Views: only ``view`` gives Python mapped
memory. Forks: the core is notified in the child, so that every inherited handle
raises ``ForkedError``.

The core's constants are repeated as enums and dtypes, here and in
`pystore.bindings.row`, so that the packages above need no ``_core``; tests compare each
with the header.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from enum import IntEnum
from errno import ENOMEM
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from pystore._core import ffi, lib
from pystore.bindings.row import (
    NO_CHECK,
    NO_OFFSET,
    NO_TOPIC,
    RECORD_DTYPE,
    Check,
    Proof,
    Stop,
    unpack_record,
)
from pystore.errors import (
    BusyError,
    ClosedError,
    CorruptError,
    CutError,
    FencedError,
    ForkedError,
    FullError,
    InvalidError,
    LockedError,
    NotAStoreError,
    OffsetOutOfRange,
    PoisonedError,
    PystoreError,
    StorageError,
)

if TYPE_CHECKING:
    from pystore._core import CData

__all__ = [
    "HAS_GIL",
    "MESSAGE_HEAD_SIZE",
    "NO_CHECK",
    "NO_OFFSET",
    "NO_TOPIC",
    "POSITION_DTYPE",
    "RECORD_DTYPE",
    "Check",
    "LocalAck",
    "Proof",
    "Scratch",
    "Stop",
    "borrow",
    "check",
    "fail",
    "ffi",
    "give_back",
    "lib",
    "pointer",
    "position_room",
    "release",
    "take",
    "unpack_record",
    "view",
]

MESSAGE_HEAD_SIZE: int = lib.PS_MESSAGE_HEAD
"""The fixed part of the message form, in bytes."""

HAS_GIL = bool(getattr(sys, "_is_gil_enabled", lambda: True)())
"""Threads that return from the core take it one after the other."""


class LocalAck(IntEnum):
    """
    What an append waits for.
    """

    LEADER = 0
    """In the page cache: survives a killed process."""
    SYNCED = 1
    """On disk: survives a power cut."""
    SHARED = 2
    """As `LEADER`, for an ack of replicas: no deadline of the authority applies."""


POSITION_DTYPE = np.dtype([("offset", "=u8"), ("queue_offset", "=i8")])
"""Where one appended record went: ``ps_position``."""

# Lack of memory is an error of the system, with its number.
_ERRORS: dict[int, type[PystoreError]] = {
    lib.PS_E_INVALID: InvalidError,
    lib.PS_E_IO: StorageError,
    lib.PS_E_FULL: FullError,
    lib.PS_E_CORRUPT: CorruptError,
    lib.PS_E_RANGE: OffsetOutOfRange,
    lib.PS_E_BUSY: BusyError,
    lib.PS_E_FENCED: FencedError,
    lib.PS_E_POISONED: PoisonedError,
    lib.PS_E_CLOSED: ClosedError,
    lib.PS_E_FORKED: ForkedError,
    lib.PS_E_LOCKED: LockedError,
    lib.PS_E_MEMORY: StorageError,
    lib.PS_E_CUT: CutError,
    lib.PS_E_NOT_STORE: NotAStoreError,
    lib.PS_E_SPACE: InvalidError,
}


def check(status: int, error: CData, path: str | None = None) -> None:
    """
    Raises the exception of *status* and *error*, unless the status is good.

    Args:
        status: what a function of the core returned.
        error: the ``ps_error`` that it filled.
        path: of the handle.

    Raises:
        PystoreError: of the class of the status.
    """
    if status:
        fail(status, error, path)


def fail(status: int, error: CData, path: str | None = None) -> NoReturn:
    """
    Raises the exception of *status*, a failure, and *error*.

    Raises:
        PystoreError: of the class of the status.
    """
    text = ffi.string(error.text).decode("utf-8", "replace")
    offset = None if error.offset == NO_OFFSET else error.offset
    kind = _ERRORS[status]
    if issubclass(kind, StorageError):
        number = ENOMEM if status == lib.PS_E_MEMORY else error.system_errno
        raise kind(text, errno=number or None, offset=offset, path=path)
    raise kind(text, offset=offset, path=path)


class Scratch:
    """
    Memory that the core fills, for one call at a time.

    Attributes:
        error: a ``ps_error``.
        appended, ends, record: results, each with ``*_bytes``, its memory as a
            buffer: to unpack a struct at once is five times as fast as to read its
            fields.
        number, count: a ``uint64_t`` and a ``uint32_t``.
        data: ``DATA_SIZE`` bytes for a record; ``data_bytes`` as a buffer.
    """

    __slots__ = (
        "appended",
        "appended_bytes",
        "count",
        "data",
        "data_bytes",
        "ends",
        "ends_bytes",
        "error",
        "number",
        "record",
        "record_bytes",
    )

    DATA_SIZE = 32768

    def __init__(self) -> None:
        self.error = ffi.new("ps_error *")
        self.appended = ffi.new("ps_appended *")
        self.appended_bytes = ffi.buffer(self.appended)
        self.ends = ffi.new("ps_ends *")
        self.ends_bytes = ffi.buffer(self.ends)
        self.record = ffi.new("ps_record *")
        self.record_bytes = ffi.buffer(self.record)
        self.number = ffi.new("uint64_t *")
        self.count = ffi.new("uint32_t *")
        self.data = ffi.new("uint8_t[]", self.DATA_SIZE)
        self.data_bytes = ffi.buffer(self.data)


_pool: list[Scratch] = []

give_back: Callable[[Scratch], None] = _pool.append
"""
Returns a scratch to the pool. Not needed after an exception: the pool makes a new
one.
"""


take: Callable[[], Scratch] = _pool.pop
"""
``borrow`` for the hottest call, which handles the ``IndexError`` itself.
"""


def borrow() -> Scratch:
    """
    Returns a scratch that no other call uses until ``give_back``.
    """
    try:
        return take()
    except IndexError:  # more calls at once than the pool has
        return Scratch()


def pointer(data: object) -> CData:
    """
    Returns *data* for the core: bytes as they are, other buffers borrowed.

    Args:
        data: bytes, or any contiguous buffer.

    Raises:
        InvalidError: it is no buffer, or has gaps.
    """
    if type(data) is bytes:
        return data
    try:
        return ffi.from_buffer("uint8_t[]", data)
    except (TypeError, ValueError, BufferError) as error:
        # The error of cffi names cffi's types, this one the caller's.
        kind = type(data).__name__
        raise InvalidError(f"bytes are needed, not {kind}: {error}") from error


def release(borrowed: CData) -> None:
    """
    Gives back what `pointer` borrowed. Call it where a call may raise: the frames of an
    exception would keep the buffer, and the garbage collector may clear a view that is
    still in use.
    """
    if type(borrowed) is not bytes:
        ffi.release(borrowed)


def view(block: CData) -> memoryview:
    """
    Returns the bytes of an acquired block, read-only and without a copy.

    The block is released when the view and all its slices are gone. So the
    destructor belongs to the *data pointer*, which the buffer keeps alive. A
    destructor of the block would run at once, because ``block.data`` makes a new
    pointer that keeps nothing alive. The block keeps what it needs of its log, since
    the garbage collector ends a cycle in any order.

    Args:
        block: an acquired ``ps_block``; the view owns it.
    """

    def release(
        _data: CData,
        block: CData = block,
        release: Callable[[CData], None] = lib.ps_block_release,
    ) -> None:
        release(block)

    data = ffi.gc(block.data, release)
    return memoryview(ffi.buffer(data, block.size)).toreadonly()


# A forked child shares files and memory with its parent, but no threads: handles of
# the parent raise ForkedError there.
os.register_at_fork(after_in_child=lib.ps_forked)


def position_room(positions: NDArray[Any]) -> tuple[CData, int]:
    """
    Returns the memory of an array of ``POSITION_DTYPE``, and its number of records.

    Raises:
        InvalidError: another dtype, gaps, or read-only.
    """
    if positions.dtype != POSITION_DTYPE:
        raise InvalidError(f"positions of numpy {positions.dtype}: see POSITION_DTYPE")
    try:
        room = ffi.from_buffer("ps_position[]", positions, require_writable=True)
    except (ValueError, BufferError) as error:  # gaps, or read-only
        raise InvalidError(f"positions cannot be filled: {error}") from error
    return room, len(positions)
