"""
Frames of the remoting protocol: every one that RocketMQ's classes wrote, and every
damaged one.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lib.oracle.golden_remoting import (
    FRAMES,
    MALFORMED,
    as_java_saw_it,
    decode_whole,
    raw,
)

from pystore.errors import InvalidError, RemoteViolation
from pystore.remoting.codes import Language, Serialisation
from pystore.remoting.command import RemotingCommand
from pystore.remoting.framing import CommandReader, encode_frame

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NUMBERS = st.integers(-(1 << 31), (1 << 31) - 1)
SMALL_NUMBERS = st.integers(-(1 << 15), (1 << 15) - 1)
COMMANDS = st.builds(
    RemotingCommand,
    code=SMALL_NUMBERS,
    opaque=NUMBERS,
    flag=NUMBERS,
    ext_fields=st.dictionaries(TEXT.filter(bool), TEXT.filter(bool), max_size=4),
    body=st.binary(max_size=40),
    remark=st.none() | TEXT.filter(bool),
    language=st.sampled_from(Language),
    version=SMALL_NUMBERS,
    serialisation=st.sampled_from(Serialisation),
)

# What Java's reader takes and ours does not.
STRICTER = ("is not UTF-8", "is not JSON", "code is missing", "bytes of fields at")


def read_all(pieces: list[bytes]) -> tuple[list[RemotingCommand], str]:
    """
    Returns the commands in pieces that come one by one, and the error at their end.
    """
    reader = CommandReader()
    found: list[RemotingCommand] = []
    for piece in pieces:
        reader.feed(piece)
        try:
            while (command := reader.take()) is not None:
                found.append(command)
        except RemoteViolation as violation:
            # What a peer that is no peer sends.
            return found, str(violation)
    return found, ""


def cut(data: bytes, at: list[int]) -> list[bytes]:
    """
    Returns the data in pieces that end at these places.
    """
    ends = sorted({min(one, len(data)) for one in at} | {len(data)})
    return [data[a:b] for a, b in zip([0, *ends], ends, strict=False)]


def test_every_recorded_frame_decodes_as_in_java() -> None:
    """
    Formats 3.1 to 3.3, both serialisations.
    """
    assert 528 == len(FRAMES)
    for line in FRAMES:
        assert as_java_saw_it(line["decoded"]) == decode_whole(raw(line))


def is_said_shorter(line: dict[str, Any]) -> bool:
    """
    Whether Java wrote a header object without fields, or null as empty text.
    """
    fields = line["decoded"]["extFields"]
    return fields == {} or None in (fields or {}).values()


def test_every_recorded_frame_is_encoded_to_the_same_bytes() -> None:
    """
    Fields come in the order of the frame, which Java's hash map chose. Where they are
    none, or null, we send nothing.
    """
    shorter = [line for line in FRAMES if is_said_shorter(line)]
    for line in FRAMES:
        command = decode_whole(raw(line))
        assert command is not None
        again = encode_frame(command)
        if line in shorter:
            assert command == decode_whole(again)
        else:
            assert raw(line).hex() == again.hex()

    assert 34 >= len(shorter)


def test_every_damaged_frame_is_refused_or_decodes_as_in_java() -> None:
    """
    Whatever Java refuses is refused; we take less, for four named reasons.
    """
    assert 300 == len(MALFORMED)
    refused = []
    for line in MALFORMED:
        try:
            command = decode_whole(raw(line))
        except RemoteViolation as violation:
            # Java may be as strict or not.
            if "decoded" in line:
                refused.append(str(violation))
            continue
        assert as_java_saw_it(line["decoded"]) == command

    assert 14 == len(refused)
    assert [] == [why for why in refused if not any(one in why for one in STRICTER)]


@given(commands=st.lists(COMMANDS, max_size=4), at=st.lists(st.integers(0, 600)))
def test_any_cut_of_the_bytes_gives_the_same_commands(
    commands: list[RemotingCommand], at: list[int]
) -> None:
    """
    The network may break a frame anywhere.
    """
    data = b"".join(map(encode_frame, commands))

    assert (commands, "") == read_all(cut(data, at))


@given(
    line=st.sampled_from(MALFORMED),
    before=COMMANDS,
    at=st.lists(st.integers(0, 600)),
)
def test_any_cut_of_damaged_bytes_gives_the_same_error(
    line: dict[str, Any], before: RemotingCommand, at: list[int]
) -> None:
    """
    What stands before the damage is not lost.
    """
    data = encode_frame(before) + raw(line)
    found, why = read_all(cut(data, at))

    assert (found, why) == read_all([data])
    assert before == found[0]


@given(st.binary(max_size=80))
def test_random_bytes_raise_only_the_protocol_error(data: bytes) -> None:
    """
    A port scanner is no reason to stop.
    """
    read_all([data])
    read_all([len(data).to_bytes(4) + data])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\xff\xff\xff\xff", "a frame of 3 bytes: 8 to 16777216 are allowed"),
        (b"\x80\x00\x00\x00", "a frame of -2147483644 bytes"),
        (b"\x00\x00\x00\x00", "a frame of 4 bytes"),
        (b"\x00\xff\xff\xfd", "a frame of 16777217 bytes"),
        (b"\x00\x00\x00\x04\x00\x00\x00\x01", "a header of 1 bytes in a frame of 8"),
        (b"\x00\x00\x00\x04\x02\x00\x00\x00", "serialisation 2: 0 .* and 1"),
        (b"\x00\x00\x00\x04\x00\x00\x00\x00", "the header is not JSON"),
        (b"\x00\xff\xff\xfc\x00\x04\x00\x01", "header of 262145 bytes: 262144 are"),
        (b"\x16\x03\x01\x02", "looks like TLS"),
        (b"GET / HTTP/1.1", "looks like HTTP"),
    ],
)
def test_an_invalid_length_is_refused_at_once(data: bytes, why: str) -> None:
    """
    The reader does not wait for the rest of the frame.
    """
    with pytest.raises(RemoteViolation, match=why):
        decode_whole(data)


def test_the_longest_frame_is_accepted() -> None:
    """
    16 MiB, with its length.
    """
    empty = encode_frame(RemotingCommand(1))
    longest = RemotingCommand(1, body=bytes((16 << 20) - len(empty)))

    assert longest == decode_whole(encode_frame(longest))
    with pytest.raises(InvalidError, match="16777217 bytes: at most 16777216 are"):
        encode_frame(RemotingCommand(1, body=longest.body + b"1"))


def test_after_an_invalid_frame_nothing_is_read() -> None:
    """
    The same error is raised again, and no bytes are kept.
    """
    reader = CommandReader()
    reader.feed(b"\x00\x00\x00\x00")
    with pytest.raises(RemoteViolation, match="a frame of 4 bytes"):
        reader.take()
    reader.feed(encode_frame(RemotingCommand(1)))

    assert 0 == reader.held
    with pytest.raises(RemoteViolation, match="a frame of 4 bytes"):
        reader.take()


def test_taken_frames_leave_the_buffer() -> None:
    """
    A long connection takes no more memory than a short one.
    """
    reader = CommandReader()
    frame = encode_frame(RemotingCommand(1, body=bytes(1000)))
    for _ in range(200):
        reader.feed(frame + frame[:9])
        assert reader.take() is not None
        reader.feed(frame[9:])
        assert reader.take() is not None

    assert 0 == reader.held
