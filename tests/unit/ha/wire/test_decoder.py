"""
A connection's bytes become the same frames in whatever pieces they come (RMQ-R272).
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lib.ha.wire_frames import EXAMPLES, MINIMUM, ack_frames, frames

from pystore.errors import RemoteViolation
from pystore.ha.wire.codes import (
    FRAME_BYTES_MAX,
    FRAME_BYTES_UNSETTLED,
    HEADER_BYTES,
    AckFlag,
    AckStatus,
    FrameType,
)
from pystore.ha.wire.decoder import (
    FIRST_UNKNOWN_TYPE,
    frame_bytes,
    plain_ack,
    take_frame,
)
from pystore.ha.wire.frames import Frame, TransferAck, TransferData
from pystore.ha.wire.v3 import ACK_BYTES, encode

LIMIT = 600


def header(length: int, kind: int = FrameType.TRANSFER_ACK) -> bytes:
    """
    Returns the front of a frame that declares this length.
    """
    numbers = ((length, 4), (kind, 4), (1, 8), (2, 8))
    return b"".join(n.to_bytes(size, "big", signed=True) for n, size in numbers)


def settled(frame: Frame) -> Frame:
    """
    Returns the frame with a block that outlives the buffer.
    """
    body = frame.body
    if not isinstance(body, TransferData):
        return frame
    whole = body._replace(block=bytes(body.block))
    return Frame(frame.epoch, frame.sent_ms, whole)


class Buffer:
    """
    What a connection keeps, and how much at most.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.kept = bytearray()
        self.kept_max = 0
        self.taken: list[Frame | int] = []
        self.is_closed = False

    def feed(self, data: bytes) -> None:
        """
        Takes the frames that are whole; a skipped one as its size.
        """
        for byte in range(0, len(data), self.limit):
            if not self.is_closed:
                self.kept += data[byte : byte + self.limit]
                self._take()
                self.kept_max = max(self.kept_max, len(self.kept))

    def _take(self) -> None:
        while True:
            try:
                frame, size = take_frame(memoryview(bytes(self.kept)), self.limit)
            except RemoteViolation:
                self.is_closed = True
                return
            if not size:
                return
            self.taken.append(size if frame is None else settled(frame))
            del self.kept[:size]


skipped = st.tuples(st.integers(16, 2**31 - 1), st.binary(max_size=40)).map(
    lambda one: header(HEADER_BYTES + len(one[1]), one[0]) + one[1]
)
garbage = st.one_of(
    st.binary(max_size=80),
    st.tuples(st.integers(-2, LIMIT + 2), st.integers(-1, 18)).map(
        lambda t: header(*t)
    ),
    st.sampled_from(sorted(raw for _, raw in EXAMPLES.values())),
)
streams = st.lists(st.one_of(frames.map(encode), skipped, garbage), max_size=6)


@given(streams.map(b"".join), st.lists(st.integers(1, 200), max_size=60))
def test_pieces_give_the_same_frames_as_the_whole(
    stream: bytes, sizes: list[int]
) -> None:
    """
    RMQ-R272: also the same end, and never more is kept than one frame of the limit.
    """
    whole, pieces = Buffer(LIMIT), Buffer(LIMIT)
    whole.feed(stream)
    at = 0
    for size in sizes:
        pieces.feed(stream[at : at + size])
        at += size
    for byte in range(at, len(stream)):
        pieces.feed(stream[byte : byte + 1])

    assert whole.taken == pieces.taken
    assert whole.is_closed == pieces.is_closed
    assert whole.is_closed or whole.kept == pieces.kept
    assert pieces.is_closed or LIMIT > pieces.kept_max


@given(frames.map(encode), st.binary(max_size=100))
def test_nothing_behind_the_declared_length_is_looked_at(
    raw: bytes, behind: bytes
) -> None:
    """
    RMQ-R272: what follows a frame is of no account for it.
    """
    assert take_frame(memoryview(raw)) == take_frame(memoryview(raw + behind))


@given(frames.map(encode), st.data())
def test_a_frame_that_is_not_whole_waits(raw: bytes, data: st.DataObject) -> None:
    """
    However much of it is there.
    """
    size = data.draw(st.integers(0, len(raw) - 1))

    assert (None, 0) == take_frame(memoryview(raw[:size]))


@given(st.binary(max_size=200), st.integers(HEADER_BYTES, 300))
def test_any_bytes_are_a_frame_or_wait_or_are_refused(data: bytes, limit: int) -> None:
    """
    There is no fourth way out.
    """
    try:
        frame, size = take_frame(memoryview(data), limit)
    except RemoteViolation:
        return
    assert size <= min(len(data), limit)
    assert frame is None or size >= HEADER_BYTES


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 1, 23, LIMIT + 1, 2**31 - 1])
def test_a_length_that_no_frame_has_is_refused_at_once(length: int) -> None:
    """
    Four bytes say enough: an oversized frame is not waited for.
    """
    with pytest.raises(RemoteViolation, match=f"a frame of {length} bytes: 24 to"):
        take_frame(memoryview(header(length)[:4]), LIMIT)


def test_a_frame_of_exactly_the_limit_is_taken() -> None:
    """
    And one of nothing but a header is looked at.
    """
    raw = header(LIMIT, 16) + bytes(LIMIT - HEADER_BYTES)

    assert (None, LIMIT) == take_frame(memoryview(raw), LIMIT)
    assert (None, HEADER_BYTES) == take_frame(memoryview(header(24, 16)), LIMIT)
    assert LIMIT == frame_bytes(memoryview(raw), LIMIT)
    assert frame_bytes(memoryview(raw[:3]), LIMIT) is None


def test_before_the_handshake_a_frame_has_at_most_a_mebibyte() -> None:
    """
    RMQ-K.3: 1 MiB until both sides have settled, 16 MiB at most.
    """
    assert (1 << 20, 16 << 20) == (FRAME_BYTES_UNSETTLED, FRAME_BYTES_MAX)
    assert (None, 0) == take_frame(memoryview(header(1 << 20)))
    with pytest.raises(RemoteViolation):
        take_frame(memoryview(header((1 << 20) + 1)))


@pytest.mark.parametrize("kind", [-(2**31), -1, 0, *range(12, 16)])
def test_a_reserved_type_is_refused_before_its_body_came(kind: int) -> None:
    """
    A peer that means something by it must not be misunderstood.
    """
    raw = header(LIMIT, kind)
    with pytest.raises(RemoteViolation, match=f"the unknown type {kind}"):
        take_frame(memoryview(raw[:8]), LIMIT)
    assert (None, 0) == take_frame(memoryview(raw[:7]), LIMIT)


@pytest.mark.parametrize("kind", [FIRST_UNKNOWN_TYPE, 17, 2**31 - 1])
def test_an_unknown_type_is_skipped_by_its_length(kind: int) -> None:
    """
    The frame behind it is read as if it had not been there.
    """
    frame, raw = EXAMPLES["ack"]
    stream = header(HEADER_BYTES + 5, kind) + b"later" + raw
    buffer = Buffer(LIMIT)
    buffer.feed(stream)

    assert 16 == FIRST_UNKNOWN_TYPE
    assert [HEADER_BYTES + 5, frame] == buffer.taken


@pytest.mark.parametrize("kind", FrameType)
def test_a_frame_shorter_than_its_type_is_refused(kind: FrameType) -> None:
    """
    One byte below the least body of the table.
    """
    short = header(HEADER_BYTES + MINIMUM[kind] - 1, kind) + bytes(MINIMUM[kind] - 1)
    least = header(HEADER_BYTES + MINIMUM[kind], kind) + bytes(MINIMUM[kind])

    with pytest.raises(RemoteViolation):
        take_frame(memoryview(short))
    assert len(least) == take_frame(memoryview(least))[1]


ACK = TransferAck(99, 500, 400, 300, 1234, 600, AckStatus.OK, AckFlag(0))


def test_an_ack_in_step_is_three_offsets() -> None:
    """
    Whatever follows it in the buffer.
    """
    data = encode(Frame(7, 4321, ACK))
    assert len(data) == ACK_BYTES

    assert plain_ack(memoryview(data + b"more"), 7, 99) == (500, 400, 600)


def test_an_ack_that_says_more_is_left_to_the_decoder() -> None:
    """
    Another epoch or session, a status, a flag, a part of it.
    """
    data = memoryview(encode(Frame(7, 4321, ACK)))
    flagged = ACK._replace(flags=AckFlag.SUSPEND)
    full = ACK._replace(status=AckStatus.DISK_FULL)
    others = [encode(Frame(7, 4321, one)) for one in (flagged, full)]

    assert plain_ack(data, 8, 99) is None
    assert plain_ack(data, 7, 98) is None
    assert plain_ack(data[:-1], 7, 99) is None
    assert [plain_ack(memoryview(one), 7, 99) for one in others] == [None, None]


@given(ack_frames | frames, st.binary(max_size=100))
def test_what_is_taken_is_what_the_decoder_finds(frame: Frame, more: bytes) -> None:
    """
    For any frame with any bytes behind it.
    """
    body = frame.body
    data = memoryview(encode(frame) + more)
    epoch, session_id = frame.epoch, getattr(body, "session_id", 0)
    found = plain_ack(data, epoch, session_id)
    if found is None:
        return
    decoded, size = take_frame(data, len(data))

    assert size == ACK_BYTES
    assert isinstance(body, TransferAck)
    assert decoded == frame
    offsets = body.received_offset, body.flushed_offset, body.echo_end_offset
    assert found == offsets
