"""
The checksum of a received block, by the C core.

The core computes it some six times faster than zlib.

Source: csrc/wire.h.
"""

from __future__ import annotations

from pystore.bindings.ffi import borrow, check, ffi, give_back, lib, pointer
from pystore.errors import CorruptError, RemoteViolation

__all__ = ["is_block_sound"]


def is_block_sound(frame: memoryview) -> bool:
    """
    Returns whether the block of a TRANSFER_DATA frame has the CRC-32 that its head
    names.

    Args:
        frame: one whole frame and no byte more.

    Raises:
        RemoteViolation: the bytes are no frame.
    """
    scratch = borrow()
    row = ffi.new("ps_frame[1]")
    status = lib.ps_frames_scan(
        pointer(frame),
        len(frame),
        len(frame),
        True,  # noqa: FBT003
        row,
        1,
        scratch.count,
        scratch.number,
        scratch.error,
    )
    try:
        check(status, scratch.error)
    except CorruptError as error:  # the peer's bytes are bad, not those of the log
        raise RemoteViolation(str(error)) from error
    give_back(scratch)
    return bool(row[0].crc_holds)
