"""
Text and numbers as Java reads them; the values were made by Java 17.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystore.message.java import decode_java, parse_java_int
from pystore.message.properties import delivery_ms, parse_properties, tags_code

MALFORMED = {
    "c2": 65533,
    "c241": 2031588,
    "c1bf": 2097056,
    "e282": 65533,
    "e09f80": 65074269,
    "e080": 2097056,
    "eda080": 65533,
    "eda0": 65533,
    "edbfbf41": 2031588,
    "f09f98": 65533,
    "f09f9880": 1772899,
    "f09f9841": 2031588,
    "f08f8080": 2017367872,
    "f4908080": 2017367872,
}


@pytest.mark.parametrize(("raw", "code"), MALFORMED.items(), ids=MALFORMED)
def test_malformed_text_is_read_as_java_reads_it(raw: str, code: int) -> None:
    """
    Java's hash of the text tells how many parts became U+FFFD.
    """
    assert code == tags_code(decode_java(bytes.fromhex(raw)))


def test_a_surrogate_is_one_replacement() -> None:
    """
    Python's own replacement makes three of it.
    """
    assert {"k": "a\ufffdb"} == parse_properties(b"k\x01a\xed\xa0\x80b\x02")


@given(st.text())
def test_whole_text_is_read_as_it_is(text: str) -> None:
    """
    Only malformed text needs a replacement.
    """
    assert text == decode_java(text.encode())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("+3", 3),
        ("-3", -3),
        ("-0", 0),
        ("007", 7),
        ("\u0663", 3),
        ("\uff11\u0662", 12),
        ("2147483647", 2**31 - 1),
        ("-2147483648", -(2**31)),
        ("2147483648", None),
        ("", None),
        ("+", None),
        ("3 ", None),
        ("3_0", None),
        ("\u00b2", None),
        ("\U0001d7d9", None),
        ("0x3", None),
    ],
)
def test_a_number_is_read_as_java_reads_it(text: str, value: int | None) -> None:
    """
    A sign, and the decimal digits of any script in one UTF-16 unit.
    """
    assert value == parse_java_int(text)


@pytest.mark.parametrize("level", ["3", "+3", "003", "\u0663"])
def test_a_delay_level_is_read_as_the_core_reads_it(level: str) -> None:
    """
    Level 3 is ten seconds.
    """
    due = delivery_ms("SCHEDULE_TOPIC_XXXX", {"DELAY": level}, 1_000_000)

    assert 1_010_000 == due
