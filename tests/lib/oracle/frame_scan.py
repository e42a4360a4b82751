"""
All whole frames of a received buffer: in Python, and by the core's ``csrc/wire.h``.

Both have the same result; where they differ, Python is right.

Source: docs/protocol.md (RMQ-K.3, TRANSFER_DATA).
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, NamedTuple

from pystore.bindings.ffi import borrow, check, ffi, give_back, lib, pointer
from pystore.errors import CorruptError, RemoteViolation
from pystore.ha.wire.codes import DataFlag, FrameType
from pystore.ha.wire.decoder import take_frame
from pystore.ha.wire.frames import Body, Frame, TransferData
from pystore.ha.wire.v3 import decode_body

__all__ = ["Received", "scan_frames", "scan_frames_in_core"]

_ROW = struct.Struct("=qqQIiqqqqqqIIiI")
_KNOWN_FLAGS = sum(DataFlag)


class Received(NamedTuple):
    """
    A frame, and whether the checksum of its block holds; True where none is asked.
    """

    frame: Frame
    is_sound: bool


def scan_frames(
    data: memoryview, frame_bytes_max: int, frames_max: int, *, is_checked: bool
) -> tuple[list[Received], int]:
    """
    Returns the whole frames at the front, and the bytes that they and skipped ones
    take.

    Args:
        data: what was received; blocks are views into it.
        frame_bytes_max: the longest frame of the session.
        frames_max: how many at most.
        is_checked: whether the session has checksums.

    Raises:
        RemoteViolation: bytes that are no frame, at the very front; if others stand
            before them, those come back first.
    """
    found: list[Received] = []
    at = 0
    while len(found) < frames_max:
        try:
            frame, size = take_frame(data[at:], frame_bytes_max)
        except RemoteViolation:  # told when it is the first
            if at == 0:
                raise
            break
        if not size:
            break
        if frame is not None:
            found.append(Received(frame, not is_checked or _is_sound(frame)))
        at += size
    return found, at


def _is_sound(frame: Frame) -> bool:
    body = frame.body
    return not isinstance(body, TransferData) or zlib.crc32(body.block) == body.crc


def scan_frames_in_core(
    data: memoryview, frame_bytes_max: int, frames_max: int, *, is_checked: bool
) -> tuple[list[Received], int]:
    """
    As `scan_frames`, by one call of the core.

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


def _body(kind: int, payload: memoryview, fields: list[int]) -> Body:
    if kind != FrameType.TRANSFER_DATA:
        return decode_body(FrameType(kind), payload)
    *numbers, size, crc, flags = fields
    block = payload[len(payload) - size :]
    known = DataFlag(flags & _KNOWN_FLAGS)
    values: list[Any] = [*numbers, crc, known, block]
    return TransferData(*values)
