"""
Frames of the v3 protocol are the bytes of docs/protocol.md, and come back from them.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lib.ha.wire_frames import EXAMPLES, MINIMUM, frames
from lib.values import replace

from pystore.errors import InvalidError, RemoteViolation
from pystore.ha.wire.codes import HEADER_BYTES, FrameType
from pystore.ha.wire.decoder import take_frame
from pystore.ha.wire.frames import (
    Body,
    Frame,
    HandshakeMaster,
    HandshakeSlave,
    QueryEpoch,
    ReturnEpoch,
    TransferData,
)
from pystore.ha.wire.v3 import (
    DATA_BYTES_MIN,
    EPOCH_BYTES,
    RETURN_BYTES_MIN,
    decode_body,
    encode,
)


def body_of(name: str) -> tuple[FrameType, bytearray]:
    """
    Returns the type and the body of an example.
    """
    raw = EXAMPLES[name][1]
    return FrameType(int.from_bytes(raw[4:8], "big")), bytearray(raw[HEADER_BYTES:])


def slave(**changes: Any) -> Frame:
    """
    Returns the example of a slave's handshake with changes.
    """
    frame = EXAMPLES["handshake of a slave"][0]
    assert isinstance(frame.body, HandshakeSlave)
    return replace(frame, body=replace(frame.body, **changes))


def master(reason: str) -> Frame:
    """
    Returns a refusal for that reason.
    """
    frame = EXAMPLES["refusal"][0]
    assert isinstance(frame.body, HandshakeMaster)
    return replace(frame, body=replace(frame.body, reason=reason))


def back(raw: bytes | bytearray) -> Body:
    """
    Returns the body of one whole frame.
    """
    frame, taken = take_frame(memoryview(raw))
    assert frame is not None
    assert len(raw) == taken
    return frame.body


@pytest.mark.parametrize("name", EXAMPLES)
class TestExamples:
    """Every type of frame, against bytes that were written by hand."""

    def test_a_frame_is_the_bytes_of_the_table(self, name: str) -> None:
        """Each field has its place, its width and its sign."""
        frame, raw = EXAMPLES[name]

        assert raw.hex() == encode(frame).hex()

    def test_the_bytes_of_the_table_are_the_frame(self, name: str) -> None:
        """The way back."""
        frame, raw = EXAMPLES[name]

        assert (frame, len(raw)) == take_frame(memoryview(raw))

    def test_a_longer_body_is_tolerated(self, name: str) -> None:
        """What a later version adds is ignored; a block alone fills its frame."""
        kind, body = body_of(name)
        if kind == FrameType.TRANSFER_DATA:
            with pytest.raises(RemoteViolation, match="3 bytes in a frame with 11"):
                decode_body(kind, memoryview(body + bytes(8)))
        else:
            longer = decode_body(kind, memoryview(body + bytes(8)))
            assert EXAMPLES[name][0].body == longer

    def test_a_body_that_ends_early_is_refused(self, name: str) -> None:
        """At whichever byte; but an empty query asks for everything."""
        kind, body = body_of(name)
        for size in range(kind == FrameType.QUERY_EPOCH, len(body)):
            with pytest.raises(RemoteViolation):
                decode_body(kind, memoryview(body[:size]))


def test_the_shortest_body_of_each_type_is_that_of_the_table() -> None:
    """
    One byte less is too short.
    """
    for kind, size in MINIMUM.items():
        decode_body(kind, memoryview(bytes(size)))
        with pytest.raises(RemoteViolation):
            decode_body(kind, memoryview(bytes(size - 1)))


def test_the_fixed_parts_have_the_sizes_that_others_count_with() -> None:
    """
    The sender of a block behind a head uses them.
    """
    assert (24 + 64, 24, 40) == (DATA_BYTES_MIN, EPOCH_BYTES, RETURN_BYTES_MIN)


@given(frames)
def test_every_frame_comes_back_as_it_was(frame: Frame) -> None:
    """
    Whatever the fields hold.
    """
    assert (frame, len(encode(frame))) == take_frame(memoryview(encode(frame)))


def test_a_block_is_a_view_of_what_was_received() -> None:
    """
    Bytes of the log are not copied on their way.
    """
    raw = bytearray(EXAMPLES["data"][1])
    body = back(raw)
    assert isinstance(body, TransferData)
    raw[-1] = ord("x")

    assert b"abx" == bytes(body.block)


def test_an_empty_query_asks_for_the_whole_table() -> None:
    """
    From epoch 0 on, as many as fit.
    """
    assert QueryEpoch(0, 0, 0) == decode_body(FrameType.QUERY_EPOCH, memoryview(b""))


@pytest.mark.parametrize(
    ("name", "at", "value"),
    [
        ("refusal", 0, -13),
        ("refusal", 0, 1),
        ("confirmed cut", 48, 5),
        ("confirmed cut", 48, -1),
        ("ack", 48, 6),
    ],
)
def test_a_number_without_a_meaning_is_refused(name: str, at: int, value: int) -> None:
    """
    A result, an outcome or a status that no version has defined.
    """
    kind, body = body_of(name)
    body[at : at + 4] = value.to_bytes(4, "big", signed=True)

    with pytest.raises(RemoteViolation, match=f"the unknown \\w+ {value}"):
        decode_body(kind, memoryview(body))


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("handshake of a slave", 68),
        ("handshake of a master", 76),
        ("epochs", 32),
        ("confirmed cut", 52),
        ("data", 56),
        ("ack", 52),
    ],
)
def test_flags_of_a_later_version_are_ignored(name: str, at: int) -> None:
    """
    Even the highest bit, which makes the number negative.
    """
    kind, body = body_of(name)
    body[at] |= 0x80
    body[at + 1] |= 0xFF

    assert EXAMPLES[name][0].body == decode_body(kind, memoryview(body))


@pytest.mark.parametrize("size", [-1, 0, 2, 4, 2**31 - 1])
def test_a_block_fills_its_frame(size: int) -> None:
    """
    A frame that says another size than it has says nothing that can be trusted.
    """
    kind, body = body_of("data")
    body[48:52] = size.to_bytes(4, "big", signed=True)

    with pytest.raises(RemoteViolation, match=f"a block of {size} bytes"):
        decode_body(kind, memoryview(body))


@pytest.mark.parametrize("count", [-1, 1, 3, 2**31 - 1])
def test_epochs_are_those_that_the_frame_holds(count: int) -> None:
    """
    A number of entries that the checksum or the frame does not bear is refused.
    """
    kind, body = body_of("epochs")
    body[28:32] = count.to_bytes(4, "big", signed=True)

    with pytest.raises(RemoteViolation, match="RETURN_EPOCH"):
        decode_body(kind, memoryview(body))


def test_a_flipped_bit_in_an_epoch_is_noticed() -> None:
    """
    The entries have a checksum of their own.
    """
    for bit in range(8 * 48):
        kind, body = body_of("epochs")
        body[40 + bit // 8] ^= 1 << bit % 8
        with pytest.raises(RemoteViolation, match="checksum"):
            decode_body(kind, memoryview(body))


@pytest.mark.parametrize("name", [b"\xff", b"\xed\xa0\x80", b"\xc3"])
def test_a_name_that_is_no_utf8_is_refused(name: bytes) -> None:
    """
    Names are compared: one that was bent might be another's.
    """
    kind, body = body_of("handshake of a slave")
    body[88:91] = len(name).to_bytes(2, "big") + name

    with pytest.raises(RemoteViolation, match="not UTF-8"):
        decode_body(kind, memoryview(body))


def test_what_a_field_cannot_hold_is_our_own_mistake() -> None:
    """
    Nothing is cut down to size in silence.
    """
    for changes in (
        {"broker_id": 2**63},
        {"protocol_max": 2**31},
        {"incarnation_bits": bytes(15)},
        {"cluster": "c" * 2**16},
        {"broker_name": "\udc80"},
    ):
        with pytest.raises(InvalidError):
            encode(slave(**changes))
    with pytest.raises(InvalidError, match="ReturnEpoch"):
        encode(Frame(0, 0, ReturnEpoch(0, 0, 0, 2**31, _no_flags(), ())))


def _no_flags() -> Any:
    frame = EXAMPLES["epochs"][0]
    assert isinstance(frame.body, ReturnEpoch)
    return frame.body.flags & 0


@given(st.text(max_size=3000))
def test_a_refusal_leaves_whatever_its_reason_is_made_of(reason: str) -> None:
    """
    A reason may hold what an exception said, and be as long; it is for people.
    """
    body = back(encode(master(reason + "\udc80" * 2)))

    assert isinstance(body, HandshakeMaster)
    sent = (reason + "??").encode("utf-8", "replace")
    assert sent.startswith(body.reason.encode())
    assert min(len(sent), 1024 - 3) <= len(body.reason.encode()) <= 1024
