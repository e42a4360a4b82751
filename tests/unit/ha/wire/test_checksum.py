"""
The core checks the block of a frame, and scans a buffer of frames as Python does.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lib.ha.wire_frames import EXAMPLES, frames
from lib.oracle.frame_scan import Received, scan_frames, scan_frames_in_core

from pystore.bindings.ffi import ffi, lib
from pystore.errors import RemoteViolation
from pystore.ha.wire.checksum import is_block_sound
from pystore.ha.wire.codes import HEADER_BYTES, DataFlag
from pystore.ha.wire.frames import Frame, TransferData
from pystore.ha.wire.v3 import DATA_BYTES_MIN, encode

LIMIT = 4096
Scan = Callable[..., tuple[list[Received], int]]
BOTH = pytest.mark.parametrize(
    "scan", [scan_frames, scan_frames_in_core], ids=["python", "core"]
)


def block_of(received: Received) -> bytes:
    """
    Returns the block of a data frame.
    """
    assert isinstance(received.frame.body, TransferData)
    return bytes(received.frame.body.block)


@BOTH
class TestScan:
    """The same behaviour of both; where they differ Python is right."""

    def test_a_bad_frame_is_told_when_it_is_the_first(self, scan: Scan) -> None:
        """What stands before it was said, and counts."""
        frame, raw = EXAMPLES["ack"]
        bad = bytes(8)
        found, taken = scan(memoryview(raw + bad), LIMIT, 9, is_checked=True)

        assert ([Received(frame, True)], len(raw)) == (found, taken)  # noqa: FBT003
        with pytest.raises(RemoteViolation, match="a frame of 0 bytes"):
            scan(memoryview(bad), LIMIT, 9, is_checked=True)

    def test_a_flipped_bit_in_a_block_is_noticed(self, scan: Scan) -> None:
        """If the session has checksums; the frame comes back all the same."""
        raw = bytearray(EXAMPLES["data"][1])
        raw[-1] ^= 1
        for is_checked, is_sound in ((True, False), (False, True)):
            found, taken = scan(memoryview(raw), LIMIT, 9, is_checked=is_checked)
            assert len(raw) == taken
            assert [is_sound] == [one.is_sound for one in found]
            assert b"abb" == block_of(found[0])

    def test_a_block_is_a_view_of_what_was_received(self, scan: Scan) -> None:
        """Bytes of the log are not copied on their way."""
        raw = bytearray(EXAMPLES["data"][1])
        found, _ = scan(memoryview(raw), LIMIT, 9, is_checked=False)
        raw[-1] = ord("x")

        assert b"abx" == block_of(found[0])


pieces = st.one_of(
    frames.map(encode),
    st.sampled_from(sorted(raw for _, raw in EXAMPLES.values())),
    st.binary(max_size=40),
    st.tuples(st.integers(0, 99), st.integers(-1, 20)).map(
        lambda one: (
            b"".join(n.to_bytes(4, "big", signed=True) for n in one) + bytes(one[0])
        )
    ),
)


@given(st.lists(pieces, max_size=6), st.integers(0, 8), st.booleans(), st.data())
def test_both_find_the_same_frames(
    parts: list[bytes], count: int, is_checked: bool, data: st.DataObject
) -> None:
    """
    In whatever was received, with a flipped byte perhaps, or half of it.
    """
    stream = bytearray(b"".join(parts))
    if stream and data.draw(st.booleans()):
        stream[data.draw(st.integers(0, len(stream) - 1))] ^= 1 << 3
    del stream[data.draw(st.integers(0, len(stream))) :]
    results: list[object] = []
    for scan in (scan_frames, scan_frames_in_core):
        try:
            results.append(
                scan(memoryview(stream), LIMIT, count, is_checked=is_checked)
            )
        except RemoteViolation:
            results.append(RemoteViolation)

    assert results[0] == results[1]


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

    assert is_block_sound(memoryview(frame))
    frame[-1] ^= 1
    assert not is_block_sound(memoryview(frame))


def test_bytes_that_are_no_frame_are_the_peers_violation() -> None:
    """
    The core names them; the log is not corrupt.
    """
    with pytest.raises(RemoteViolation, match="a frame of 0 bytes"):
        is_block_sound(memoryview(bytes(8)))
