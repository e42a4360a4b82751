"""
Header values as text: what Java's reader makes of strings, and what we write.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lib.oracle.golden_remoting import HEADER_VALUES
from lib.remoting.headers import HEADERS

from pystore.errors import InvalidError
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.controller_headers import BrokerHeartbeat
from pystore.remoting.fields import (
    Int32,
    Int64,
    MissingField,
    decode_fields,
    encode_fields,
    wire_name,
)


@dataclass(frozen=True, slots=True)
class Sample:
    """
    One field of each kind.
    """

    broker_name: str
    body_crc32: Int32 = 0
    max_offset: Int64 | None = None
    is_leader: bool = False


SAMPLES = st.builds(
    Sample,
    broker_name=st.text(),
    body_crc32=st.integers(-(1 << 31), (1 << 31) - 1),
    max_offset=st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
    is_leader=st.booleans(),
)


def header_of(line: dict[str, Any]) -> Any:
    """
    Returns our class for a class of Java's.
    """
    pair = HEADERS[RequestCode(line["command"])]
    return pair.response if "Response" in line["headerClass"] else pair.request


def lacks(line: dict[str, Any]) -> str | None:
    """
    Returns a value that we need, and that Java has as null.
    """
    return next(
        (
            wire_name(one.name)
            for one in fields(header_of(line))
            if one.default is MISSING
            and line["decodedHeader"][wire_name(one.name)] is None
        ),
        None,
    )


def test_any_text_is_read_as_java_reads_it() -> None:
    """
    Signs, zeros, spaces, other types, other bits: what is no value is the default.
    """
    assert 264 == len(HEADER_VALUES)
    refused = 0
    for line in HEADER_VALUES:
        kind, sent = header_of(line), line["extFields"] or {}
        missing = lacks(line)
        if missing:
            refused += 1
            with pytest.raises(MissingField, match=missing):
                decode_fields(kind, sent)
            continue
        header = decode_fields(kind, sent)
        for one in fields(kind):
            java = line["decodedHeader"][wire_name(one.name)]
            expected = one.default if java in (None, "NOW") else java
            assert expected == getattr(header, one.name), (line, one.name)

    assert 0 < refused < len(HEADER_VALUES) / 2


@given(SAMPLES)
def test_a_header_survives_the_way_there_and_back(header: Sample) -> None:
    """
    What is none is not sent.
    """
    sent = encode_fields(header)

    assert header == decode_fields(Sample, sent)
    assert ("maxOffset" in sent) == (header.max_offset is not None)


def test_unknown_fields_are_ignored() -> None:
    """
    Later versions have more of them.
    """
    sent = {"brokerName": "a", "later": "7", "BodyCrc32": "1"}

    assert Sample("a") == decode_fields(Sample, sent)


def test_a_missing_field_is_named_with_rocketmqs_code() -> None:
    """
    A heartbeat without an id is an invalid request (RMQ-R238), others fail within.
    """
    with pytest.raises(MissingField, match="Sample: brokerName is missing") as caught:
        decode_fields(Sample, {})
    assert ResponseCode.SYSTEM_ERROR is caught.value.code

    with pytest.raises(MissingField, match="brokerId is not a number: 'x'") as caught:
        decode_fields(BrokerHeartbeat, {"brokerId": "x"})
    assert ResponseCode.CONTROLLER_INVALID_REQUEST is caught.value.code


@pytest.mark.parametrize(
    "text", ["1_0", "\u0661", "1 ", "", "9" * 5000, "0" * 5000, "2147483648"]
)
def test_text_that_is_not_a_java_number_is_the_default(text: str) -> None:
    """
    Python's own idea of a number is wider, and its patience shorter.
    """
    sent = {"brokerName": "a", "bodyCrc32": text}

    assert 0 == decode_fields(Sample, sent).body_crc32


def test_a_number_outside_its_range_is_not_sent() -> None:
    """
    It would arrive as the default.
    """
    with pytest.raises(InvalidError, match="bodyCrc32 is outside 32 bits: 2147483648"):
        encode_fields(Sample("a", 1 << 31))
