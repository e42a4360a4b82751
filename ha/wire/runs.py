"""
Runs of data frames: adjacent frames of a master become one. Pure.

Each frame costs a slave two calls of its log, whatever its size. With blocks of 32 KiB
that was more than checking and writing the bytes, with 256 KiB still a fifth of it. So
adjacent frames in the receive buffer that only continue the log are taken as one. Short
blocks are copied into one buffer, since a write costs more than the copy; long ones
stay in place.

Source: docs/protocol.md (RMQ-K.3, TRANSFER_DATA).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pystore.ha.wire.codes import DataFlag, FrameType
from pystore.ha.wire.frames import Frame, TransferData
from pystore.ha.wire.v3 import DATA_BYTES_MIN, DATA_HEAD

__all__ = ["ROOM_BYTES", "RUN_BYTES", "SHORT_BYTES", "FrameRun", "join_run"]

ROOM_BYTES = 256 << 10
"""Bytes of the short blocks in a run, at most: more bring no gain."""

RUN_BYTES = 1 << 20
"""Bytes of the long blocks in a run, at most: the size of a receive buffer."""

SHORT_BYTES = 64 << 10
"""A block below this size is short."""

_OTHER_FLAGS = ~int(DataFlag.EPOCH_BEGINS)


class FrameRun(NamedTuple):
    """
    Frames that are taken as one.

    Attributes:
        frame: header fields of the last one; its body is *body*.
        body: the block of the first one, or of all short ones, and the other fields of
            the last one.
        size: bytes of all frames.
        more: the blocks that follow the body's.
    """

    frame: Frame
    body: TransferData
    size: int
    more: Sequence[memoryview] = ()


def join_run(
    data: memoryview, run: FrameRun, room: memoryview, frame_bytes_max: int
) -> FrameRun:
    """
    Adds the following frames that continue where the first one ends, have the same
    label, and set no flags.

    Args:
        data: from the frame's front on.
        run: the frame at the front alone; its blocks carry no checksums.
        room: the buffer for the joined short blocks.
        frame_bytes_max: the longest frame of the session.

    Returns:
        the same run, if no frame continues it.
    """
    frame, body, size, _ = run
    filled = len(body.block)
    at, limit = size, len(data) - DATA_BYTES_MIN
    if at > limit or not filled or int(body.flags) & _OTHER_FLAGS:
        return run
    label = FrameType.TRANSFER_DATA, frame.epoch, body.epoch, body.epoch_start
    session_id, offset = body.session_id, body.offset
    is_short = filled < SHORT_BYTES
    most = len(room) if is_short else RUN_BYTES
    blocks = []
    last: tuple[int, int, int] | None = None
    while at <= limit:
        length, kind, sent_ms, frame_epoch, *words = DATA_HEAD.unpack_from(data, at)
        epoch, start, confirm, place, end, session, count, crc, flags, _ = words
        goes_on = place == offset + filled and session == session_id
        is_plain = 0 < count == length - DATA_BYTES_MIN and crc == 0 and flags == 0
        until = filled + count
        if (
            not (goes_on and is_plain)
            or (kind, frame_epoch, epoch, start) != label
            or until > most
            or length > min(frame_bytes_max, len(data) - at)
            or offset + until > end
        ):
            break
        blocks.append(data[at + DATA_BYTES_MIN : at + length])
        last = sent_ms, confirm, end
        filled, at = until, at + length
    if last is None:
        return run
    block = body.block
    if is_short:
        block, blocks = _joined(block, blocks, room[:filled]), []
    sent_ms, confirm, end = last
    joined = TransferData(
        body.epoch,
        body.epoch_start,
        confirm,
        offset,
        end,
        session_id,
        0,
        body.flags,
        block,
    )
    return FrameRun(Frame(frame.epoch, sent_ms, joined), joined, at, blocks)


def _joined(
    first: bytes | memoryview, others: list[memoryview], room: memoryview
) -> memoryview:
    at = len(first)
    room[:at] = first
    for block in others:
        room[at : at + len(block)] = block
        at += len(block)
    return room
