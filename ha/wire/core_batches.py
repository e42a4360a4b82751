"""
`pystore.ha.wire.batches` by the C core: one crossing for many frames. Pure.

It pays for whole received buffers and for blocks with checksums; a single head costs
more here than in Python.

Source: csrc/wire.h.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from pystore._seam import borrow, check, ffi, give_back, lib, pointer
from pystore.errors import CorruptError, InvalidError, RemoteViolation
from pystore.ha.codes import DataFlag, FrameType
from pystore.ha.wire.batches import Head, Received, Sending
from pystore.ha.wire.blocks import Extent
from pystore.ha.wire.frames import Body, Frame, TransferData
from pystore.ha.wire.v3 import DATA_BYTES_MIN, decode_body

if TYPE_CHECKING:
    from pystore._core import CData

__all__ = ["fill_heads", "holds", "scan_frames"]

_ROW = struct.Struct("=qqQIiqqqqqqIIiI")
_KNOWN_FLAGS = sum(DataFlag)


def fill_heads(
    log: Extent,
    sending: Sending,
    offset: int,
    size: int,
    frames_max: int,
    *,
    data: bytes | memoryview | None = None,
) -> list[Head]:
    """
    As `pystore.ha.wire.batches.fill_heads`.

    Raises:
        OffsetOutOfRange: the log does not hold ``offset`` (R100).
        InvalidError: no epoch covers it (R188), or a size that nothing has.
    """
    if data is not None and len(data) < size:
        raise InvalidError(f"{len(data)} bytes of the log are not {size}")
    epochs = _epochs(log, offset, frames_max)
    scratch = borrow()
    try:
        transfer = ffi.new(
            "ps_transfer *",
            {
                "epochs": epochs,
                "epoch_count": len(epochs),
                "min_offset": log.min_offset,
                "end_offset": log.end_offset,
                "segment_size": log.segment_size,
                "confirm_offset": sending.confirm_offset,
                "session_epoch": sending.epoch,
                "session_id": sending.session_id,
                "sent_ms": sending.sent_ms,
                "block_bytes_max": sending.block_bytes_max,
                "flags": sending.flags,
            },
        )
        heads = bytearray(frames_max * DATA_BYTES_MIN)
        rows = ffi.new("ps_frame[]", frames_max)
        status = lib.ps_frames_fill(
            transfer,
            offset,
            ffi.NULL if data is None else pointer(data),
            size,
            ffi.from_buffer("uint8_t[]", heads),
            rows,
            frames_max,
            scratch.count,
            scratch.error,
        )
    except OverflowError as error:  # what the fields of the core cannot hold
        raise InvalidError(f"no numbers of a log: {error}") from error
    check(status, scratch.error)
    count = scratch.count[0]
    give_back(scratch)
    return [
        Head(
            bytes(heads[i * DATA_BYTES_MIN : (i + 1) * DATA_BYTES_MIN]),
            rows[i].offset,
            rows[i].block_size,
        )
        for i in range(count)
    ]


def _epochs(log: Extent, offset: int, frames_max: int) -> CData:
    # As many as blocks can meet, from the one that covers the offset on.
    entries = log.epochs.entries
    place = bisect_right(entries, offset, key=attrgetter("start_offset"))
    met = entries[place - 1 : place + frames_max] if place else ()
    return ffi.new("ps_epoch[]", [(one.epoch, one.start_offset) for one in met])


def scan_frames(
    data: memoryview, frame_bytes_max: int, frames_max: int, *, is_checked: bool
) -> tuple[list[Received], int]:
    """
    As `pystore.ha.wire.batches.scan_frames`.

    Raises:
        RemoteViolation: bytes that are no frame, at the very front.
    """
    scratch = borrow()
    rows = ffi.new("ps_frame[]", frames_max)
    status = lib.ps_frames_scan(
        pointer(data),
        len(data),
        frame_bytes_max,
        is_checked,
        rows,
        frames_max,
        scratch.count,
        scratch.number,
        scratch.error,
    )
    try:
        check(status, scratch.error)
    except CorruptError as error:  # here it is not the log that is bad
        raise RemoteViolation(str(error)) from error
    count, taken = scratch.count[0], scratch.number[0]
    give_back(scratch)
    found: list[Received] = []
    for row in _ROW.iter_unpack(ffi.buffer(rows, count * _ROW.size)):
        epoch, sent_ms, at, size, kind, *fields, holds = row
        try:
            body = _body(kind, data[at : at + size], fields)
        except RemoteViolation:  # told when it is the first
            start = at - lib.PS_FRAME_HEADER
            if start == 0:
                raise
            return found, start
        is_sound = kind != FrameType.TRANSFER_DATA or not is_checked or bool(holds)
        found.append(Received(Frame(epoch, sent_ms, body), is_sound))
    return found, taken


def holds(frame: memoryview, frame_bytes_max: int) -> bool:
    """
    Returns whether the block of one TRANSFER_DATA frame has the checksum that the
    frame says.

    Raises:
        RemoteViolation: bytes that are no frame.
    """
    (found,), _ = scan_frames(frame, frame_bytes_max, 1, is_checked=True)
    return found.is_sound


def _body(kind: int, payload: memoryview, fields: list[int]) -> Body:
    if kind != FrameType.TRANSFER_DATA:
        return decode_body(FrameType(kind), payload)
    *numbers, size, crc, flags = fields
    block = payload[len(payload) - size :]
    known = DataFlag(flags & _KNOWN_FLAGS)
    values: list[Any] = [*numbers, crc, known, block]
    return TransferData(*values)
