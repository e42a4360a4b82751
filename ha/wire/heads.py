"""
The head of a block of v3, straight from its numbers. Pure.

A master sends a block for each append that somebody waits for. Frame and body as
values would take half of the time, and nobody would look at them.

Source: docs/protocol.md (K.3, TRANSFER_DATA).
"""

from __future__ import annotations

import struct

from pystore.errors import InvalidError
from pystore.ha.codes import FrameType
from pystore.ha.wire.v3 import DATA_BYTES_MIN

__all__ = ["data_head"]

_HEAD = struct.Struct(">iiqqqqqqqqiIii")


def data_head(
    *,
    epoch: int,
    sent_ms: int,
    label: tuple[int, int],
    confirm_offset: int,
    block: tuple[int, int],
    end_offset: int,
    session_id: int,
    flags: int,
) -> bytes:
    """
    Returns what stands before a block, as `pystore.ha.wire.v3.encode_head` does.

    Args:
        epoch: of the session.
        sent_ms: the sender's clock.
        label: the epoch of the block's first byte, and where that begins.
        confirm_offset: the master's.
        block: where it begins, and its bytes.
        end_offset: of the master's log.
        session_id: of the handshake.
        flags: of the block; its checksum is 0.

    Raises:
        InvalidError: a value that its field cannot hold.
    """
    offset, size = block
    try:
        return _HEAD.pack(
            DATA_BYTES_MIN + size,
            FrameType.TRANSFER_DATA,
            sent_ms,
            epoch,
            *label,
            confirm_offset,
            offset,
            end_offset,
            session_id,
            size,
            0,
            flags,
            0,
        )
    except struct.error as error:  # the one way in which it says "out of range"
        raise InvalidError(f"a block of {size} bytes at {offset}: {error}") from error
