"""
Data frames that only go on are one; whatever else a frame says stands alone.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lib.values import replace

from pystore.ha.wire.codes import DataFlag
from pystore.ha.wire.decoder import take_frame
from pystore.ha.wire.frames import Frame, TransferAck, TransferData
from pystore.ha.wire.runs import ROOM_BYTES, RUN_BYTES, SHORT_BYTES, FrameRun, join_run
from pystore.ha.wire.v3 import encode

LIMIT = 1 << 20
FIRST = TransferData(3, 64, 90, 100, 5000, 7, 0, DataFlag(0), b"abcd")
NEXT = replace(FIRST, offset=104, confirm_offset=95, end_offset=5200, block=b"efg")


def joined(raw: bytes, room: int = ROOM_BYTES, limit: int = LIMIT) -> FrameRun:
    """
    Returns the run at the front of these bytes.
    """
    data = memoryview(raw)
    frame, size = take_frame(data, LIMIT)
    assert frame is not None
    assert isinstance(frame.body, TransferData)
    alone = FrameRun(frame, frame.body, size)
    return join_run(data, alone, memoryview(bytearray(room)), limit)


def raw_of(*bodies: TransferData | TransferAck, sent_ms: int = 10) -> bytes:
    """
    Returns frames one after the other, each sent a millisecond later.
    """
    return b"".join(
        encode(Frame(9, sent_ms + number, body)) for number, body in enumerate(bodies)
    )


def test_a_frame_that_goes_on_belongs_to_the_one_before() -> None:
    """
    The block is both, the label the first one's, and the news are the last one's.
    """
    raw = raw_of(FIRST, NEXT)

    frame, body, size, more = joined(raw)

    assert (size, frame.sent_ms, frame.epoch) == (len(raw), 11, 9)
    assert frame.body is body
    assert (bytes(body.block), more) == (b"abcdefg", [])
    whole = replace(FIRST, confirm_offset=95, end_offset=5200, block=body.block)
    assert body == whole


def test_the_first_may_begin_an_epoch() -> None:
    """
    Its flag is about the first byte, which is the run's.
    """
    body = joined(raw_of(replace(FIRST, flags=DataFlag.EPOCH_BEGINS), NEXT)).body

    assert (body.flags, bytes(body.block)) == (DataFlag.EPOCH_BEGINS, b"abcdefg")


@pytest.mark.parametrize(
    "behind",
    [
        replace(NEXT, offset=105),
        replace(NEXT, epoch=4),
        replace(NEXT, epoch_start=65),
        replace(NEXT, session_id=8),
        replace(NEXT, crc=1),
        replace(NEXT, flags=DataFlag.EPOCH_BEGINS),
        replace(NEXT, flags=DataFlag.ACK_NOW),
        replace(NEXT, block=b""),
        replace(NEXT, end_offset=106),
        TransferAck(7, 0, 0, 0, 0, 0, 0, 0),  # type: ignore[arg-type]
    ],
)
def test_a_frame_with_anything_else_to_say_stands_alone(
    behind: TransferData | TransferAck,
) -> None:
    """
    Another place, label or session, a checksum, a flag, a heartbeat, an end below
    its own bytes, another kind: the connection judges each by itself.
    """
    first = encode(Frame(9, 10, FIRST))

    run = joined(raw_of(FIRST, behind) + bytes(100))

    assert run == (Frame(9, 10, FIRST), FIRST, len(first), ())


@pytest.mark.parametrize("flags", [DataFlag.ACK_NOW, DataFlag.SUSPENDED])
def test_nothing_goes_on_behind_a_first_that_wants_something(flags: DataFlag) -> None:
    """
    What it wants is about its own end.
    """
    first = replace(FIRST, flags=flags)

    assert joined(raw_of(first, NEXT)).body == first


def test_a_frame_of_another_session_epoch_stands_alone() -> None:
    """
    The frame's epoch is judged before its body (RMQ-R273).
    """
    raw = raw_of(FIRST) + encode(Frame(8, 11, NEXT))

    assert joined(raw).body == FIRST


def test_a_half_frame_waits_for_its_rest() -> None:
    """
    Wherever the received bytes end, the run is of whole frames.
    """
    raw, second = raw_of(FIRST, NEXT, replace(NEXT, offset=107)), raw_of(NEXT)
    both = len(raw) - len(second)

    for end in range(both, len(raw)):
        assert joined(raw[:end]).size == both
    assert joined(raw).size == len(raw)


def test_a_run_is_no_longer_than_its_room() -> None:
    """
    What does not fit begins the next one.
    """
    raw = raw_of(FIRST, NEXT, replace(NEXT, offset=107))

    assert bytes(joined(raw, room=9).body.block) == b"abcdefg"
    assert joined(raw, room=6).body == FIRST


def test_a_frame_that_is_too_long_stands_alone() -> None:
    """
    The connection refuses it, and everything behind it.
    """
    raw, second = raw_of(FIRST, NEXT), len(raw_of(NEXT))

    assert joined(raw, limit=second).size == len(raw)
    assert joined(raw, limit=second - 1).size == len(raw) - second


def long(*sizes: int) -> list[TransferData]:
    """
    Returns frames of so many bytes each that go on one behind the other.
    """
    bodies, offset = [], FIRST.offset
    for number, size in enumerate(sizes):
        body = replace(FIRST, offset=offset, confirm_offset=number, end_offset=1 << 30)
        bodies.append(replace(body, block=bytes([number + 1]) * size))
        offset += size
    return bodies


def test_long_blocks_are_not_copied() -> None:
    """
    They stay where they were received, a short one among them too; the news are
    the last one's.
    """
    raw = raw_of(*long(SHORT_BYTES, 3, SHORT_BYTES + 1))

    frame, body, size, more = joined(raw)

    assert (size, frame.sent_ms, body.confirm_offset) == (len(raw), 12, 2)
    assert [body.block, *more] == [one.block for one in long(SHORT_BYTES, 3, 65537)]
    assert all(isinstance(block, memoryview) for block in (body.block, *more))
    assert all(block.obj is raw for block in (body.block, *more))  # type: ignore[union-attr]


def test_a_long_block_does_not_join_short_ones() -> None:
    """
    It would be copied, or they would be written one by one.
    """
    raw = raw_of(*long(3, 4, ROOM_BYTES))

    run = joined(raw)

    assert (len(run.body.block), run.more) == (7, [])


def test_a_run_of_long_blocks_is_no_longer_than_a_receive_buffer() -> None:
    """
    Its bytes are one effect, without a check whether to stop in between.
    """
    quarter = RUN_BYTES // 4
    run = joined(raw_of(*long(*[quarter] * 5)))

    assert RUN_BYTES == len(run.body.block) + sum(map(len, run.more))


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=20))
def test_runs_carry_the_bytes_of_their_frames(blocks: list[bytes]) -> None:
    """
    However the log was cut into frames, the runs hold it whole.
    """
    bodies, offset = [], FIRST.offset
    for block in blocks:
        bodies.append(replace(FIRST, offset=offset, block=block))
        offset += len(block)
    rest, found = raw_of(*bodies), b""

    while rest:
        _, body, size, _ = joined(rest, room=100)
        assert body.offset == FIRST.offset + len(found)
        found += bytes(body.block)
        rest = rest[size:]

    assert found == b"".join(blocks)
