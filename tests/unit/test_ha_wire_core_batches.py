"""
What of the core's batches Python has no counterpart for; the rest is in
test_ha_wire_batches.py, over both.
"""

from __future__ import annotations

import zlib

import pytest

from pystore._seam import ffi, lib
from pystore.epochs import EpochTable
from pystore.errors import InvalidError
from pystore.ha.codes import HEADER_BYTES, DataFlag
from pystore.ha.master.effects import MasterLog
from pystore.ha.wire import core_batches
from pystore.ha.wire.batches import Sending
from pystore.ha.wire.frames import Frame, TransferData
from pystore.ha.wire.v3 import DATA_BYTES_MIN, encode

LOG = MasterLog(0, 100, 100, 100, EpochTable.of([(1, 0)]), 1024)
SENDING = Sending(9, 77, 90, 123456, 700)


def test_the_core_counts_with_the_same_sizes() -> None:
    """
    Of a header, of a head, and of a row as it is taken apart.
    """
    assert (HEADER_BYTES, DATA_BYTES_MIN) == (lib.PS_FRAME_HEADER, lib.PS_DATA_HEAD)
    assert 96 == ffi.sizeof("ps_frame")


def test_bytes_that_are_not_there_are_not_summed() -> None:
    """
    The core cannot know how much memory it was given.
    """
    with pytest.raises(InvalidError, match="9 bytes of the log are not 10"):
        core_batches.fill_heads(LOG, SENDING, 0, 10, 5, data=bytes(9))


def test_numbers_that_no_log_has_are_our_own_mistake() -> None:
    """
    Not cut down to size in silence.
    """
    with pytest.raises(InvalidError, match="no numbers of a log"):
        core_batches.fill_heads(LOG, Sending(2**63, 1, 1, 1, 1), 0, 10, 5)


def test_a_block_holds_if_its_checksum_is_its_own() -> None:
    """One bit of it is enough to tell."""
    block = memoryview(b"block")
    body = TransferData(1, 0, 0, 0, 9, 5, zlib.crc32(block), DataFlag(0), block)
    frame = bytearray(encode(Frame(1, 0, body)))

    assert core_batches.holds(memoryview(frame), len(frame))
    frame[-1] ^= 1
    assert not core_batches.holds(memoryview(frame), len(frame))
