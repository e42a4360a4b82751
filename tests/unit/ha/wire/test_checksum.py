"""
What of the core's batches Python has no counterpart for; the rest is in
test_ha_wire_batches.py, over both.
"""

from __future__ import annotations

import zlib

from pystore.bindings.ffi import ffi, lib
from pystore.ha.wire import checksum
from pystore.ha.wire.codes import HEADER_BYTES, DataFlag
from pystore.ha.wire.frames import Frame, TransferData
from pystore.ha.wire.v3 import DATA_BYTES_MIN, encode


def test_the_core_counts_with_the_same_sizes() -> None:
    """
    Of a header, of a head, and of a row as it is taken apart.
    """
    assert (HEADER_BYTES, DATA_BYTES_MIN) == (lib.PS_FRAME_HEADER, lib.PS_DATA_HEAD)
    assert 96 == ffi.sizeof("ps_frame")


def test_a_block_holds_if_its_checksum_is_its_own() -> None:
    """One bit of it is enough to tell."""
    block = memoryview(b"block")
    body = TransferData(1, 0, 0, 0, 9, 5, zlib.crc32(block), DataFlag(0), block)
    frame = bytearray(encode(Frame(1, 0, body)))

    assert checksum.holds(memoryview(frame), len(frame))
    frame[-1] ^= 1
    assert not checksum.holds(memoryview(frame), len(frame))
