"""
`pystore.ha.wire.batches` by the C core: one crossing for many frames. Pure.

It pays for whole received buffers and for blocks with checksums.

Source: csrc/wire.h.
"""

from __future__ import annotations

import struct
from typing import Any

from pystore.bindings.ffi import borrow, check, ffi, give_back, lib, pointer
from pystore.errors import CorruptError, RemoteViolation
from pystore.ha.wire.batches import Received
from pystore.ha.wire.codes import DataFlag, FrameType
from pystore.ha.wire.frames import Body, Frame, TransferData
from pystore.ha.wire.v3 import decode_body

__all__ = ["holds", "scan_frames"]

_ROW = struct.Struct("=qqQIiqqqqqqIIiI")
_KNOWN_FLAGS = sum(DataFlag)


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
