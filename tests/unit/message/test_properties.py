"""
Properties are written and parsed exactly as RocketMQ does.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lib.oracle.golden_data import GoldenStore

from pystore.errors import InvalidError
from pystore.message.constants import PROPERTIES_SIZE_MAX
from pystore.message.properties import (
    delivery_ms,
    encode_properties,
    join_keys,
    parse_delay_levels,
    parse_properties,
    tags_code,
    without_crc,
)

TEXT = st.text(
    st.characters(exclude_characters="\x00\x01\x02", exclude_categories=["Cs"]),
    min_size=1,
)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("k1/v1", {"k1": "v1"}),
        ("", {}),
        (" ", {}),
        ("aaa", {}),
        ("k1/", {}),
        ("/v1", {}),
        ("k1/v1;/v2", {"k1": "v1"}),
        ("k1/;k2/v2", {"k2": "v2"}),
        ("1/1;2/2", {"1": "1", "2": "2"}),
        ("1/;2/2", {"2": "2"}),
        ("k/v/w;", {"k": "v\x01w"}),
        ("k/1;k/2;", {"k": "2"}),
    ],
)
def test_a_text_that_is_no_entry_is_left_out(
    raw: str, expected: dict[str, str]
) -> None:
    """
    The vectors that RocketMQ's own tests pin give the same tables here.
    """
    stored = raw.replace("/", "\x01").replace(";", "\x02").encode()

    assert expected == parse_properties(stored)


def test_every_property_string_of_java_parses_as_java_parsed_it(
    golden_store: GoldenStore,
) -> None:
    """
    Odd strings that clients sent give the same tables as in Java.
    """
    for line in golden_store.records:
        raw = bytes.fromhex(line["propertiesRawHex"])

        assert line["properties"] == parse_properties(raw)


@given(st.dictionaries(TEXT.filter(lambda name: name != "__CRC32#"), TEXT, max_size=8))
def test_written_properties_are_read_back(properties: dict[str, str]) -> None:
    """
    Writing and parsing are inverse, also in order.
    """
    raw = encode_properties(properties)

    assert list(properties.items()) == list(parse_properties(raw).items())
    assert raw == b"" or raw.endswith(b"\x02")


@given(st.binary(max_size=200))
def test_properties_of_any_bytes_can_be_written_again(raw: bytes) -> None:
    """
    The parser never fails and never lets a separator through.
    """
    found = parse_properties(raw)

    again = {
        name: value
        for name, value in found.items()
        if "\x00" not in name + value and "\x01" not in value and name != "__CRC32#"
    }
    assert again == parse_properties(encode_properties(again))


@pytest.mark.parametrize(
    ("properties", "line"),
    [
        ({"": "v"}, "property '': the name is empty"),
        ({"k": ""}, "property 'k': the value is empty"),
        ({"k": "a\x02b"}, "property 'k': the value holds '\\x02', which separates"),
        ({"k\x01": "v"}, "property 'k\\x01': the name holds '\\x01', which separates"),
        ({"k": "a\0b"}, "property 'k': the value holds '\\x00', which separates"),
        ({"k": 1}, "property 'k': the value is int, it must be str"),
        ({1: "v"}, "property 1: the name is int, it must be str"),
        ({"k": "\ud800"}, "property 'k' is not text"),
        ({"__CRC32#": "1"}, "property '__CRC32#' is written by the log"),
        ({"k": "v" * PROPERTIES_SIZE_MAX}, "properties of 32770 bytes are too long"),
    ],
)
def test_a_property_that_would_read_back_differently_is_refused(
    properties: dict[str, str], line: str
) -> None:
    """
    The error names the property and the problem in one line.
    """
    with pytest.raises(InvalidError) as raised:
        encode_properties(properties)

    assert str(raised.value).startswith(line)
    assert "\n" not in str(raised.value)


def test_the_longest_properties_fit() -> None:
    """
    The limit itself is allowed.
    """
    raw = encode_properties({"k": "v" * (PROPERTIES_SIZE_MAX - 3)})

    assert PROPERTIES_SIZE_MAX == len(raw)


def test_several_keys_stand_with_one_space_between() -> None:
    """
    A key with a space would read back as two.
    """
    assert "a b" == join_keys(["a", "b"])
    assert "a b" == join_keys("a b")
    for keys in (["a b", "c"], ["", "c"]):
        with pytest.raises(InvalidError, match="empty or holds a space"):
            join_keys(keys)


def test_only_the_crc_property_is_removed() -> None:
    """
    Only the last twenty bytes are the log's CRC property.
    """
    crc = b"__CRC32#\x012278494620\x02"

    assert b"k\x01v\x02" == without_crc(b"k\x01v\x02" + crc)
    assert b"" == without_crc(crc)
    assert crc + b"k\x01v\x02" == without_crc(crc + b"k\x01v\x02")
    assert b"" == without_crc(b"")


@pytest.mark.parametrize(
    ("tags", "code"),
    [
        (None, 0),
        ("", 0),
        ("TAG1", 2567159),
        ("polygenelubricants", -2147483648),
        ("标签", 857175),
        ("\U0001f600", 1772899),
    ],
)
def test_the_tags_code_is_javas_string_hash(tags: str | None, code: int) -> None:
    """
    The hash runs over UTF-16 units and is signed.
    """
    assert code == tags_code(tags)


def test_delayed_messages_have_a_time_instead_of_a_hash(
    golden_store: GoldenStore,
) -> None:
    """
    The code in Java's queues is the hash, or the time of delivery.
    """
    for line in golden_store.records:
        properties = line["properties"]
        due = delivery_ms(line["topic"], properties, line["storeTimestamp"])

        code = tags_code(properties.get("TAGS")) if due is None else due
        assert line["tagsCode"] == code


def test_a_level_that_is_no_level_delays_nothing() -> None:
    """
    For level 0 and for no number the code is the hash of the tags.
    """
    for level in ("0", "-1", "x"):
        assert delivery_ms("SCHEDULE_TOPIC_XXXX", {"DELAY": level}, 5) is None
    assert delivery_ms("T", {"DELAY": "3"}, 5) is None
    assert 5 + 2 * 3600 * 1000 == delivery_ms("SCHEDULE_TOPIC_XXXX", {"DELAY": "99"}, 5)


def test_delay_levels_have_units() -> None:
    """
    Seconds, minutes, hours, days, from level 1.
    """
    assert (2000, 60_000, 10_800_000, 172_800_000) == parse_delay_levels("2s 1m 3h 2d")


@pytest.mark.parametrize("text", ["", "1", "s", "1x", "1s  5s", "-1s", "1s,2s"])
def test_delay_levels_with_which_rocketmq_does_not_start_are_refused(text: str) -> None:
    """
    The message names the level.
    """
    with pytest.raises(InvalidError, match="messageDelayLevel"):
        parse_delay_levels(text)
