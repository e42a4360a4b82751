"""
Many frames in one call, in Python and in the core: both do the same.
"""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lib.ha.wire_frames import EXAMPLES, frames

from pystore.errors import RemoteViolation
from pystore.ha.wire import batches, checksum
from pystore.ha.wire.batches import Received
from pystore.ha.wire.v3 import encode

LIMIT = 4096
BOTH = pytest.mark.parametrize("codec", [batches, checksum], ids=["python", "core"])


@BOTH
class TestBatches:
    """The same behaviour of both; where they differ Python is right."""

    def test_a_bad_frame_is_told_when_it_is_the_first(self, codec: ModuleType) -> None:
        """What stands before it was said, and counts."""
        frame, raw = EXAMPLES["ack"]
        bad = bytes(8)
        found, taken = codec.scan_frames(
            memoryview(raw + bad), LIMIT, 9, is_checked=True
        )

        assert ([Received(frame, True)], len(raw)) == (found, taken)  # noqa: FBT003
        with pytest.raises(RemoteViolation, match="a frame of 0 bytes"):
            codec.scan_frames(memoryview(bad), LIMIT, 9, is_checked=True)

    def test_a_flipped_bit_in_a_block_is_noticed(self, codec: ModuleType) -> None:
        """If the session has checksums; the frame comes back all the same."""
        raw = bytearray(EXAMPLES["data"][1])
        raw[-1] ^= 1
        for is_checked, is_sound in ((True, False), (False, True)):
            found, taken = codec.scan_frames(
                memoryview(raw), LIMIT, 9, is_checked=is_checked
            )
            assert len(raw) == taken
            assert [is_sound] == [one.is_sound for one in found]
            assert b"abb" == bytes(found[0].frame.body.block)

    def test_a_block_is_a_view_of_what_was_received(self, codec: ModuleType) -> None:
        """Bytes of the log are not copied on their way."""
        raw = bytearray(EXAMPLES["data"][1])
        found, _ = codec.scan_frames(memoryview(raw), LIMIT, 9, is_checked=False)
        raw[-1] = ord("x")

        assert b"abx" == bytes(found[0].frame.body.block)


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
    for codec in (batches, checksum):
        try:
            results.append(
                codec.scan_frames(
                    memoryview(stream), LIMIT, count, is_checked=is_checked
                )
            )
        except RemoteViolation:
            results.append(RemoteViolation)

    assert results[0] == results[1]
