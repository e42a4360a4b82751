"""
Many frames in one call: those that came together. Pure.

This is what `pystore.ha.wire.checksum` does in one crossing, in Python: the same
tests run over both, and where they differ this one is right.

Source: docs/protocol.md (K.3, TRANSFER_DATA).
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

from pystore.errors import RemoteViolation
from pystore.ha.wire.decoder import take_frame
from pystore.ha.wire.frames import Frame, TransferData

__all__ = ["Received", "scan_frames"]


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
