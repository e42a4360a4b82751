"""
Many frames in one call, in Python and in the core: both do the same.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_frames import EXAMPLES, frames

from pystore.epochs import EpochTable
from pystore.errors import InvalidError, OffsetOutOfRange, RemoteViolation
from pystore.ha.codes import DataFlag
from pystore.ha.wire import batches, core_batches
from pystore.ha.wire.batches import Head, Received, Sending
from pystore.ha.wire.frames import TransferData
from pystore.ha.wire.framing import take_frame
from pystore.ha.wire.v3 import encode

LIMIT = 4096
LOG_BYTES = bytes(n * 7 % 251 for n in range(3000))
BOTH = pytest.mark.parametrize("codec", [batches, core_batches], ids=["python", "core"])


@dataclass(frozen=True)
class Log:
    """
    What there is to send.
    """

    epochs: EpochTable
    segment_size: int
    min_offset: int
    end_offset: int


LOG = Log(EpochTable.of([(1, 0), (2, 1580), (4, 2370)]), 1024, 0, 2844)
SENDING = Sending(9, 77, 2000, 123456, 700, DataFlag.ACK_NOW)


def unpacked(head: Head) -> TransferData:
    """
    Returns what a head says, with the block that follows it.
    """
    block = LOG_BYTES[head.offset : head.offset + head.size]
    frame, size = take_frame(memoryview(head.head + block))
    assert frame is not None
    assert len(head.head) + head.size == size
    assert (9, 123456) == (frame.epoch, frame.sent_ms)
    assert isinstance(frame.body, TransferData)
    return frame.body


@BOTH
class TestBatches:
    """The same behaviour of both; where they differ Python is right."""

    def test_heads_are_cut_at_epochs_and_segments(self, codec: ModuleType) -> None:
        """And labelled by their first byte; the blocks cover what was asked."""
        heads = codec.fill_heads(LOG, SENDING, 100, 2600, 99)

        assert [
            (100, 700),
            (800, 224),
            (1024, 556),
            (1580, 468),
            (2048, 322),
            (2370, 330),
        ] == [(head.offset, head.size) for head in heads]
        bodies = [unpacked(head) for head in heads]
        assert [1, 1, 1, 2, 2, 4] == [body.epoch for body in bodies]
        assert [4, 4, 4, 6, 4, 6] == [body.flags for body in bodies]
        assert {(2000, 2844, 77, 0)} == {
            (b.confirm_offset, b.end_offset, b.session_id, b.crc) for b in bodies
        }

    def test_heads_carry_the_checksum_of_their_block(self, codec: ModuleType) -> None:
        """Where the bytes are given."""
        data = memoryview(LOG_BYTES)[100:2700]
        for head in codec.fill_heads(LOG, SENDING, 100, 2600, 99, data=data):
            body = unpacked(head)
            assert zlib.crc32(body.block) == body.crc != 0

    def test_what_cannot_be_sent_is_an_error(self, codec: ModuleType) -> None:
        """R100, R188, and sizes that nothing has."""
        late = Log(EpochTable.of([(1, 500)]), 1024, 0, 2844)
        trimmed = Log(LOG.epochs, 1024, 1024, 2844)
        with pytest.raises(OffsetOutOfRange, match="at 1023, the log holds 1024 to"):
            codec.fill_heads(trimmed, SENDING, 1023, 100, 9)
        with pytest.raises(OffsetOutOfRange, match="at 2845, the log holds"):
            codec.fill_heads(LOG, SENDING, 2845, 100, 9)
        with pytest.raises(InvalidError, match="no epoch covers 499"):
            codec.fill_heads(late, SENDING, 499, 100, 9)
        with pytest.raises(InvalidError, match="a segment of 0 bytes"):
            codec.fill_heads(Log(LOG.epochs, 0, 0, 9), SENDING, 0, 100, 9)
        with pytest.raises(InvalidError, match="blocks of up to 0 bytes"):
            codec.fill_heads(LOG, Sending(9, 77, 0, 0, 0), 0, 100, 9)

    def test_nothing_to_send_is_no_head(self, codec: ModuleType) -> None:
        """The end of the log, no bytes, no room."""
        empty = Log(EpochTable(), 1024, 0, 0)

        assert [] == codec.fill_heads(LOG, SENDING, 2844, 100, 9)
        assert [] == codec.fill_heads(LOG, SENDING, 0, 0, 9)
        assert [] == codec.fill_heads(LOG, SENDING, 0, 100, 0)
        assert [] == codec.fill_heads(empty, SENDING, 0, 100, 9)

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


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """
    Any log of up to 3,000 bytes; sometimes its first bytes have no epoch.
    """
    starts = sorted(draw(st.sets(st.integers(0, 3000), max_size=12)))
    epochs = sorted(draw(st.sets(st.integers(0, 2**62), min_size=12, max_size=12)))
    low = draw(st.integers(0, 3000))
    table = EpochTable.of(zip(epochs, starts, strict=False))
    return Log(table, draw(st.integers(1, 2000)), low, draw(st.integers(low, 3000)))


@given(
    logs(),
    st.builds(Sending, *(st.integers(0, 2**62),) * 4, st.integers(1, 2000)),
    st.tuples(st.integers(0, 3000), st.integers(0, 3000), st.integers(0, 20)),
    st.booleans(),
)
def test_both_fill_the_same_heads(
    log: Log, sending: Sending, ask: tuple[int, int, int], is_checked: bool
) -> None:
    """
    Byte for byte, or the same error.
    """
    offset, size, count = ask
    size = min(size, 3000 - offset)
    data = LOG_BYTES[offset : offset + size] if is_checked else None
    results: list[object] = []
    for codec in (batches, core_batches):
        try:
            heads = codec.fill_heads(log, sending, offset, size, count, data=data)
            results.append(heads)
        except (OffsetOutOfRange, InvalidError) as error:
            results.append((type(error), str(error)))

    assert results[0] == results[1]


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
    for codec in (batches, core_batches):
        try:
            results.append(
                codec.scan_frames(
                    memoryview(stream), LIMIT, count, is_checked=is_checked
                )
            )
        except RemoteViolation:
            results.append(RemoteViolation)

    assert results[0] == results[1]
