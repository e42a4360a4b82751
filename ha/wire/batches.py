"""
Many frames in one call: the heads that a master sends, the frames that came. Pure.

This is what `pystore.ha.wire.core_batches` does in one crossing, in Python: the same
tests run over both, and where they differ this one is right.

Source: docs/protocol.md (K.3, TRANSFER_DATA).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import NamedTuple

from pystore.errors import InvalidError, RemoteViolation
from pystore.ha.codes import DataFlag
from pystore.ha.wire.blocks import Extent, next_block
from pystore.ha.wire.frames import Frame, TransferData
from pystore.ha.wire.framing import take_frame
from pystore.ha.wire.v3 import DATA_BYTES_MIN, encode_head

__all__ = [
    "BLOCK_BYTES_MAX",
    "Head",
    "Received",
    "Sending",
    "fill_heads",
    "scan_frames",
]


BLOCK_BYTES_MAX = 2**31 - 1 - DATA_BYTES_MIN
"""What the length of a frame can say; sessions allow far less."""


@dataclass(frozen=True, slots=True)
class Sending:
    """
    What is the same in all heads of one call.

    Attributes:
        epoch: of the session.
        session_id: of the handshake.
        confirm_offset: the master's.
        sent_ms: the master's clock.
        block_bytes_max: the longest block: what the longest frame leaves.
        flags: `DataFlag` of every head, but for EPOCH_BEGINS, which is added.
    """

    epoch: int
    session_id: int
    confirm_offset: int
    sent_ms: int
    block_bytes_max: int
    flags: int = 0


class Head(NamedTuple):
    """
    What stands before a block, and which bytes of the log the block is.
    """

    head: bytes
    offset: int
    size: int


class Received(NamedTuple):
    """
    A frame, and whether the checksum of its block holds; True where none is asked.
    """

    frame: Frame
    is_sound: bool


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
    Returns the heads of the blocks that follow one another from ``offset`` on.

    Args:
        log: what there is to send.
        sending: what all heads say.
        offset: where the slave goes on.
        size: the blocks end ``size`` bytes behind it at the latest.
        frames_max: how many heads at most.
        data: these ``size`` bytes of the log, if the session has checksums.

    Raises:
        OffsetOutOfRange: the log does not hold ``offset`` (R100).
        InvalidError: no epoch covers it (R188), or a size that nothing has.
    """
    if not 1 <= sending.block_bytes_max <= BLOCK_BYTES_MAX:
        raise InvalidError(f"blocks of up to {sending.block_bytes_max} bytes")
    heads: list[Head] = []
    first = offset
    while True:
        room = min(sending.block_bytes_max, first + size - offset)
        block = next_block(log, offset, room)  # also where no head is wanted
        if block is None or len(heads) >= frames_max:
            return heads
        flags = DataFlag(sending.flags)
        if block.is_epoch_begin:
            flags |= DataFlag.EPOCH_BEGINS
        body = TransferData(
            epoch=block.epoch,
            epoch_start=block.epoch_start,
            confirm_offset=sending.confirm_offset,
            offset=offset,
            end_offset=log.end_offset,
            session_id=sending.session_id,
            crc=_crc(data, offset - first, block.size),
            flags=flags,
        )
        frame = Frame(sending.epoch, sending.sent_ms, body)
        heads.append(Head(encode_head(frame, block.size), offset, block.size))
        offset = block.end_offset


def _crc(data: bytes | memoryview | None, at: int, size: int) -> int:
    return 0 if data is None else zlib.crc32(memoryview(data)[at : at + size])


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
