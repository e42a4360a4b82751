"""
Runs of data frames: what a master sent in many frames becomes one. Pure.

Each frame costs a slave two calls of its log and a decision, whatever its size; with
blocks of 32 KiB that was more than checking and writing the bytes, with 256 KiB still
a fifth of it. So frames that stand in the receive buffer one behind the other, and
only go on, are taken as one. Short blocks are copied together, since a write of the
log costs more than the copy; long ones stay where they were received.

Source: docs/protocol.md (K.3, TRANSFER_DATA).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pystore.ha.wire.codes import DataFlag, FrameType
from pystore.ha.wire.frames import Frame, TransferData
from pystore.ha.wire.v3 import DATA_BYTES_MIN, DATA_HEAD

__all__ = ["ROOM_BYTES", "RUN_BYTES", "SHORT_BYTES", "FrameRun", "join_run"]

ROOM_BYTES = 256 << 10
"""Short blocks of a run, together, at most: more bring nothing."""

RUN_BYTES = 1 << 20
"""Long blocks of a run, together, at most: a receive buffer of them."""

SHORT_BYTES = 64 << 10
"""A block of less is short."""

_SAYS_MORE = ~int(DataFlag.EPOCH_BEGINS)


class FrameRun(NamedTuple):
    """
    Frames that are taken as one.

    Attributes:
        frame: what the last one says of the master; its body is *body*.
        body: the block of the first, or of all short ones, and the news of the last.
        size: what they take of the received bytes.
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
    Adds to a frame those behind it that go on where it ends, under the same label,
    and say nothing else.

    Args:
        data: from the frame's front on.
        run: the frame at the front alone; its blocks carry no checksums.
        room: to write to, where the block of a run of short ones lies.
        frame_bytes_max: the longest frame of the session.

    Returns:
        the run as it came, if nothing goes on.
    """
    frame, body, size, _ = run
    filled = len(body.block)
    at, limit = size, len(data) - DATA_BYTES_MIN
    if at > limit or not filled or int(body.flags) & _SAYS_MORE:
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
        block, blocks = _together(block, blocks, room[:filled]), []
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


def _together(
    first: bytes | memoryview, others: list[memoryview], room: memoryview
) -> memoryview:
    at = len(first)
    room[:at] = first
    for block in others:
        room[at : at + len(block)] = block
        at += len(block)
    return room
