"""
Frames from the bytes of a v3 connection, in pieces of any size. Pure.

The caller owns and fills a buffer. The decoder takes whole frames from its front and
returns their size, so it copies nothing, and the buffer never needs more than one frame
of the allowed length.

Source: docs/protocol.md (RMQ-K.3, RMQ-R272).
"""

from __future__ import annotations

import struct

from pystore.errors import RemoteViolation
from pystore.ha.wire.codes import FRAME_BYTES_UNSETTLED, HEADER_BYTES, FrameType
from pystore.ha.wire.frames import Frame
from pystore.ha.wire.v3 import ACK_BYTES, ACK_FRAME, decode_body

__all__ = ["FIRST_UNKNOWN_TYPE", "PlainAck", "frame_bytes", "plain_ack", "take_frame"]

_LENGTH = struct.Struct(">i")
_TYPE = struct.Struct(">4xi")
_HEADER = struct.Struct(">iiqq")
_ACK = int(FrameType.TRANSFER_ACK)
_KINDS = {kind.value: kind for kind in FrameType}

FIRST_UNKNOWN_TYPE = 16
"""Frames of this type and above are of later versions, and are skipped."""

PlainAck = tuple[int, int, int]
"""Received offset, flushed offset, echo of the end."""


def frame_bytes(data: memoryview, frame_bytes_max: int) -> int | None:
    """
    Returns the length that the frame at the front declares.

    Args:
        data: from the frame's front on; for less than four bytes the result is
            ``None``.
        frame_bytes_max: the longest frame of the session.

    Raises:
        RemoteViolation: a length that no frame of this session has.
    """
    if len(data) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(data)
    if not HEADER_BYTES <= length <= frame_bytes_max:
        raise RemoteViolation(
            f"a frame of {length} bytes: {HEADER_BYTES} to {frame_bytes_max} are taken"
        )
    return int(length)


def take_frame(
    data: memoryview, frame_bytes_max: int = FRAME_BYTES_UNSETTLED
) -> tuple[Frame | None, int]:
    """
    Returns the frame at the front and its bytes.

    Args:
        data: from the frame's front on. A block in the frame is a view into it, so
            the caller keeps these bytes until the frame was processed.
        frame_bytes_max: the longest frame of the session.

    Returns:
        ``(None, 0)`` if more bytes are needed; ``(None, n)`` for a frame of a later
        version, which is skipped.

    Raises:
        RemoteViolation: bytes that are no frame; nothing after them can be read.
    """
    size = len(data)
    if size < HEADER_BYTES:  # not whole, but it may already be invalid
        if frame_bytes(data, frame_bytes_max) is not None and size >= _TYPE.size:
            _frame_type(*_TYPE.unpack_from(data))
        return None, 0
    length, number, sent_ms, epoch = _HEADER.unpack_from(data)
    if length < HEADER_BYTES or length > frame_bytes_max:
        frame_bytes(data, frame_bytes_max)  # raises
    kind = _KINDS.get(number) or _frame_type(number)
    if size < length:
        return None, 0
    if kind is None:
        return None, length
    body = decode_body(kind, data[HEADER_BYTES:length])
    return Frame(epoch, sent_ms, body), length


def plain_ack(data: memoryview, epoch: int, session_id: int) -> PlainAck | None:
    """
    Returns the offsets of the ack at the front, if it has status OK and no flag, which
    nearly each has; any other frame is left to `take_frame`.

    Args:
        data: the received bytes.
        epoch: of the session.
        session_id: of the handshake.
    """
    if len(data) < ACK_BYTES:
        return None
    (size, kind, _, its_epoch, *words) = ACK_FRAME.unpack_from(data)
    its_session, received, flushed, _, _, echo_end_offset, status, flags = words
    found = size, kind, its_epoch, its_session, status, flags
    if found != (ACK_BYTES, _ACK, epoch, session_id, 0, 0):
        return None
    return received, flushed, echo_end_offset


def _frame_type(number: int) -> FrameType | None:
    """
    Returns the type of a frame; ``None`` for a type of a later version.
    """
    if number >= FIRST_UNKNOWN_TYPE:
        return None
    try:
        return FrameType(number)
    except ValueError as error:  # reserved
        raise RemoteViolation(f"a frame of the unknown type {number}") from error
