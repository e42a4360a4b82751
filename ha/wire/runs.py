"""
Runs of data frames: what a master sent in many frames becomes one. Pure.

Each frame costs a slave two calls of its log and a decision, whatever its size; with
blocks of 32 KiB that was more than checking and writing the bytes. So frames that
stand in the receive buffer one behind the other, and only go on, are taken as one.

Source: docs/protocol.md (K.3, TRANSFER_DATA).
"""

from __future__ import annotations

import struct

from pystore.ha.codes import DataFlag, FrameType
from pystore.ha.wire.frames import Frame, TransferData
from pystore.ha.wire.v3 import DATA_BYTES_MIN

__all__ = ["RUN_BYTES", "join_run"]

RUN_BYTES = 256 << 10
"""Blocks of a run, together, at most: longer ones bring nothing."""

_HEAD = struct.Struct(">iiqqqqqqqqiIii")
assert _HEAD.size == DATA_BYTES_MIN
_SAYS_MORE = ~int(DataFlag.EPOCH_BEGINS)


def join_run(
    data: memoryview, frame: Frame, body: TransferData, size: int, room: memoryview
) -> tuple[Frame, TransferData, int]:
    """
    Adds to a frame those behind it that go on where it ends, under the same label,
    and say nothing else. What the last one says of the master's log counts.

    Args:
        data: from the frame's front on.
        frame: at the front; its blocks carry no checksums.
        body: of it.
        size: of it.
        room: `RUN_BYTES` to write to, which the block of a run lies in.

    Returns:
        the frame, its body, and the bytes that it stands for; as they came, if
        nothing goes on.
    """
    filled = len(body.block)
    at, limit = size, len(data) - DATA_BYTES_MIN
    if at > limit or not filled or int(body.flags) & _SAYS_MORE:
        return frame, body, size
    label = FrameType.TRANSFER_DATA, frame.epoch, body.epoch, body.epoch_start
    session_id, offset = body.session_id, body.offset
    last: tuple[int, int, int] | None = None
    while at <= limit:
        length, kind, sent_ms, frame_epoch, *words = _HEAD.unpack_from(data, at)
        epoch, start, confirm, place, end, session, count, crc, flags, _ = words
        goes_on = place == offset + filled and session == session_id
        is_plain = 0 < count == length - DATA_BYTES_MIN and crc == 0 and flags == 0
        until = filled + count
        if (
            not (goes_on and is_plain)
            or (kind, frame_epoch, epoch, start) != label
            or until > len(room)
            or at + length > len(data)
            or offset + until > end
        ):
            break
        if last is None:
            room[:filled] = body.block
        room[filled:until] = data[at + DATA_BYTES_MIN : at + length]
        last = sent_ms, confirm, end
        filled, at = until, at + length
    if last is None:
        return frame, body, size
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
        room[:filled],
    )
    return Frame(frame.epoch, sent_ms, joined), joined, at
