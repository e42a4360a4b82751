"""
The message form is laid out as the header of the C core says.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from pystore.errors import InvalidError
from pystore.message.form import HEAD, encode_message, encode_topic


def test_every_field_is_at_its_position_in_the_header() -> None:
    """
    Positions are those of the comment above PS_MESSAGE_HEAD.
    """
    host = bytes(range(1, 9))
    form = encode_message(
        b"Topic", b"body", b"k\x01v\x02", queue_id=1, flag=-2, sys_flag=0x80000003,
        reconsume_times=4, born_ms=-5, prepared_offset=6, born_host=host,
    )  # fmt: skip

    assert 56 == HEAD.size
    assert (len(form), 1, 0x80000003, 4, -5, 6) == struct.unpack_from(">IiIiqq", form)
    assert host + bytes(12) == form[32:52]
    assert (8, 5) == struct.unpack_from(">HH", form, 52)
    assert b"Topic" == form[56:61]
    entry = struct.pack(">iiiii", 22 + 4 + 4, 0, 0, -2, 4) + b"body\x00\x04k\x01v\x02"
    assert entry == form[61:]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("queue_id", -1),
        ("queue_id", 2**31),
        ("queue_id", "1"),
        ("flag", 2**31),
        ("sys_flag", -1),
        ("reconsume_times", 2**31),
        ("born_ms", 2**63),
        ("prepared_offset", 1.5),
    ],
)
def test_a_number_that_its_field_cannot_hold_is_named(name: str, value: int) -> None:
    """
    The error names the field, its value and its limits.
    """
    fields: Any = {name: value}

    with pytest.raises(InvalidError, match=rf"^{name} '?{value}'? is not in ") as info:
        encode_message(b"T", b"", b"", **fields)

    assert "\n" not in str(info.value)


def test_parts_too_long_for_their_size_fields_are_refused() -> None:
    """
    A value that does not fit is an error.
    """
    with pytest.raises(InvalidError, match="too long"):
        encode_message(b"T", b"", bytes(65536))


@pytest.mark.parametrize(
    ("topic", "size"),
    [("T" * 127, 127), ("%RETRY%" + "x" * 248, 255), ("订单", 6), ("a b", 3)],
)
def test_a_topic_up_to_its_limit_is_encoded(topic: str, size: int) -> None:
    """
    Limits count bytes; those of retry topics are longer.
    """
    assert size == len(encode_topic(topic))


@pytest.mark.parametrize(
    ("topic", "line"),
    [
        ("T" * 128, "topic of 128 bytes is too long: at most 127"),
        ("订" * 43, "topic of 129 bytes is too long: at most 127"),
        ("%RETRY%" + "x" * 249, "topic of 256 bytes is too long: at most 255"),
        ("", "topic '' cannot name a folder"),
        (".", "topic '.' cannot name a folder"),
        ("..", "topic '..' cannot name a folder"),
        ("../T", "topic '../T' cannot name a folder"),
        ("T\0", "topic 'T\\x00' cannot name a folder"),
        ("\ud800", "topic '\\ud800' is not text"),
        (b"T", "topic is bytes, it must be str"),
    ],
)
def test_a_topic_that_no_queue_could_be_named_for_is_refused(
    topic: str, line: str
) -> None:
    """
    A topic is the name of a folder, and cannot be a path outside it.
    """
    with pytest.raises(InvalidError) as info:
        encode_topic(topic)

    assert str(info.value).startswith(line)
