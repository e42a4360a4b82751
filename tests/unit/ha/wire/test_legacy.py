"""
Frames of RocketMQ's AutoSwitchHA: the bytes that Java brokers were seen to send.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lib.oracle.ha_captures import CAPTURES, Capture, frames_of

from pystore.errors import InvalidError, RemoteViolation
from pystore.ha.wire.legacy import (
    LEGACY_EPOCHS_MAX,
    LEGACY_FRAME_BYTES_MAX,
    LEGACY_HEAD_BYTES,
    LegacyAck,
    LegacyData,
    LegacyEpochs,
    LegacyFrame,
    LegacyHandshake,
    decode_ack,
    decode_data,
    decode_epochs,
    decode_from_master,
    decode_from_slave,
    decode_handshake,
    encode_legacy,
    encode_legacy_head,
    is_legacy,
)

BLOCK_MAX = 1 << 16

OBSERVED = [
    (LegacyHandshake(2), "00000001 0000 0000 0000000000000002"),
    (LegacyHandshake(2, is_learner=True), "00000001 0000 0001 0000000000000002"),
    (
        LegacyHandshake(3, is_from_last_file=True),
        "00000001 0001 0000 0000000000000003",
    ),
    (LegacyAck(158), "00000002 000000000000009e"),
    (
        LegacyEpochs(2844, 4, ((1, 0), (2, 1580), (4, 2370))),
        "00000001 00000024 0000000000000b1c 00000004 00000001 0000000000000000"
        "00000002 000000000000062c 00000004 0000000000000942",
    ),
    (LegacyEpochs(0, -1, ()), "00000001 00000000 0000000000000000 ffffffff"),
    (
        LegacyData(2844, 4, 2370, 2844),
        "00000002 00000000 0000000000000b1c 00000004 0000000000000942 0000000000000b1c",
    ),
    (
        LegacyData(-1, 1, 0, 0),
        "00000002 00000000 ffffffffffffffff 00000001 0000000000000000 0000000000000000",
    ),
    (
        LegacyData(1580, 2, 1580, 2844, b"abc"),
        "00000002 00000003 000000000000062c 00000002 000000000000062c 0000000000000b1c"
        "616263",
    ),
]


def decode(raw: bytes, *, is_master: bool) -> tuple[LegacyFrame, int] | None:
    """
    Returns the frame at the front and its size.
    """
    if is_master:
        return decode_from_master(memoryview(raw), BLOCK_MAX)
    return decode_from_slave(memoryview(raw))


@pytest.mark.parametrize(("frame", "digits"), OBSERVED)
def test_a_frame_is_the_bytes_that_were_observed(
    frame: LegacyFrame, digits: str
) -> None:
    """
    Formats 6.3 and 6.4, there and back, and never from one byte less.
    """
    raw = bytes.fromhex(digits)
    is_master = isinstance(frame, LegacyEpochs | LegacyData)

    assert raw.hex() == encode_legacy(frame).hex()
    assert (frame, len(raw)) == decode(raw + b"more", is_master=is_master)
    for size in range(len(raw)):
        assert decode(raw[:size], is_master=is_master) is None


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda capture: capture.name)
def test_every_recorded_stream_decodes_whole_and_encodes_back(capture: Capture) -> None:
    """
    What was left over is the half frame of a connection that the relay cut.
    """
    for number, (slave, master) in enumerate(capture.streams()):
        for stream, is_master in ((slave, False), (master, True)):
            taken = list(frames_of(stream, is_master=is_master))
            raw = b"".join(encode_legacy(frame) for frame, _ in taken)
            assert taken
            assert raw == stream[: len(raw)]
            assert len(raw) == len(stream) or (is_master and capture.is_cut(number))


def test_every_scenario_is_there() -> None:
    """
    A capture that went missing proves nothing.
    """
    cut = [c for c in CAPTURES if any(map(c.is_cut, range(len(c.streams()))))]

    assert 15 == len(CAPTURES)
    assert ["cut-mid-record"] == [capture.name for capture in cut]


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda capture: capture.name)
def test_the_first_answer_names_the_epochs_of_the_master(capture: Capture) -> None:
    """
    The table that a Java master sends is the one in its epoch file, later perhaps.
    """
    before = [tuple(e[:2]) for e in capture.scenario["masterBefore"]["epochs"]]
    (frame, _), *_ = frames_of(capture.streams()[0][1], is_master=True)

    assert isinstance(frame, LegacyEpochs)
    assert before == list(frame.entries[: len(before)])


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda capture: capture.name)
def test_the_bytes_in_transfer_frames_are_the_masters_log(
    capture: Capture, tmp_path: Path
) -> None:
    """
    Blocks lie where their heads say, and follow one another.
    """
    log = capture.log("master-after", tmp_path)
    for _, master in capture.streams():
        end = None
        for frame, _ in frames_of(master, is_master=True):
            if not isinstance(frame, LegacyData) or frame.offset < 0:
                continue
            assert end in (None, frame.offset)
            end = frame.offset + len(frame.block)
            assert log.bytes(frame.offset, end) == bytes(frame.block)


@given(
    st.sampled_from([raw for _, raw in OBSERVED]).map(bytes.fromhex),
    st.binary(max_size=60),
    st.booleans(),
)
def test_any_bytes_are_a_frame_or_wait_or_are_refused(
    front: bytes, rest: bytes, is_master: bool
) -> None:
    """
    And pieces make no difference: what is refused or taken is so from some byte on.
    """
    for stream in (front + rest, rest, front[:7] + rest):
        ends: list[object] = []
        for size in range(len(stream) + 1):
            try:
                ends.append(decode(stream[:size], is_master=is_master))
            except RemoteViolation:
                ends.append(RemoteViolation)
        settled = [end for end in ends if end is not None]
        assert [settled[0]] * len(settled) == settled if settled else True
        assert ends[len(ends) - len(settled) :] == settled


@pytest.mark.parametrize("state", [0, 3, 4, -1, 5, 2**31 - 1])
def test_a_state_that_no_frame_has_is_refused_at_once(state: int) -> None:
    """
    RMQ-R196: nothing is looked up by it, and the rest is not waited for.
    """
    raw = state.to_bytes(4, "big", signed=True)
    for is_master in (True, False):
        with pytest.raises(RemoteViolation, match=f"state {state}"):
            decode(raw, is_master=is_master)


@pytest.mark.parametrize(
    ("raw", "match"),
    [
        ("00000001 0002 0000 0000000000000002", "flags 2 and 0"),
        ("00000001 0000 ffff 0000000000000002", "flags 0 and -1"),
        ("00000001 0000 0000 0000000000000000", "broker id 0"),
        ("00000001 0000 0000 ffffffffffffffff", "broker id -1"),
        ("00000002 ffffffffffffffff", "offset -1"),
    ],
)
def test_what_no_slave_says_is_refused(raw: str, match: str) -> None:
    """
    RMQ-R196, RMQ-R197: an id of 0 is that of a handshake which was read too early.
    """
    with pytest.raises(RemoteViolation, match=match):
        decode(bytes.fromhex(raw), is_master=False)


@pytest.mark.parametrize("size", [-500, -1, BLOCK_MAX + 1, 2**31 - 1])
def test_a_block_of_an_impossible_size_is_refused_by_its_head(size: int) -> None:
    """
    RMQ-R188: a Java master that finds no epoch announces a negative one, with bytes.
    """
    raw = bytearray(encode_legacy(LegacyData(158, -1, 0, 0)))
    raw[4:8] = size.to_bytes(4, "big", signed=True)

    with pytest.raises(RemoteViolation, match=f"a block of {size} bytes at 158"):
        decode(bytes(raw), is_master=True)


@pytest.mark.parametrize("size", [-12, -1, 11, 13, 12 * (LEGACY_EPOCHS_MAX + 1)])
def test_a_table_of_an_impossible_size_is_refused_by_its_head(size: int) -> None:
    """
    Entries have 12 bytes, and a Java slave reads 4 MiB.
    """
    raw = bytearray(encode_legacy(LegacyEpochs(0, -1, ())))
    raw[4:8] = size.to_bytes(4, "big", signed=True)

    with pytest.raises(RemoteViolation, match=f"{size} bytes"):
        decode(bytes(raw), is_master=True)


def test_a_table_has_as_many_entries_as_a_java_slave_reads() -> None:
    """
    RMQ-R198: not as many as a Java master's buffer holds.
    """
    entries = tuple((n, n) for n in range(LEGACY_EPOCHS_MAX))
    raw = encode_legacy(LegacyEpochs(0, 1, entries))

    assert LEGACY_FRAME_BYTES_MAX - 12 < len(raw) <= LEGACY_FRAME_BYTES_MAX
    assert (LegacyEpochs(0, 1, entries), len(raw)) == decode(raw, is_master=True)
    with pytest.raises(InvalidError, match="349524 epochs"):
        encode_legacy(LegacyEpochs(0, 1, (*entries, (2**30, 0))))


def test_each_decoder_takes_its_own_frame_only() -> None:
    """
    A connection that expects one kind is not led astray by the other.
    """
    for raw, decoder in (
        (encode_legacy(LegacyAck(1)), decode_handshake),
        (encode_legacy(LegacyHandshake(1)), decode_ack),
        (encode_legacy(LegacyData(0, 1, 0, 0)), decode_epochs),
    ):
        with pytest.raises(RemoteViolation, match="state"):
            decoder(memoryview(raw))
    with pytest.raises(RemoteViolation, match="state 1"):
        decode_data(memoryview(encode_legacy(LegacyEpochs(0, -1, ()))), BLOCK_MAX)


def test_what_a_field_cannot_hold_is_our_own_mistake() -> None:
    """
    An epoch above 2^31-1 ends the legacy protocol, and is not cut down.
    """
    with pytest.raises(InvalidError, match="LegacyData"):
        encode_legacy(LegacyData(0, 2**31, 0, 0))
    with pytest.raises(InvalidError, match="LegacyAck"):
        encode_legacy(LegacyAck(2**63))


def test_a_head_is_what_stands_before_the_block() -> None:
    """
    Blocks travel from their segment, not through the codec.
    """
    frame = LegacyData(0, 1, 0, 3, b"abc")

    assert encode_legacy(frame) == encode_legacy_head(frame, 3) + b"abc"
    assert LEGACY_HEAD_BYTES == len(encode_legacy_head(frame, 3)) == 36


def test_a_connection_is_legacy_by_its_first_number() -> None:
    """
    Which is a state, and below the length of any v3 frame.
    """
    assert is_legacy(memoryview(encode_legacy(LegacyHandshake(1)))) is True
    assert is_legacy(memoryview(bytes.fromhex("00000095"))) is False
    assert is_legacy(memoryview(bytes.fromhex("000000"))) is None
