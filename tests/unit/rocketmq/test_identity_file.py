"""
The identity files against what RocketMQ wrote and read.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystore.errors import FormatError, InvalidError
from pystore.rocketmq.identity_file import (
    BrokerIdentity,
    TemporaryIdentity,
    parse_identity,
    parse_temporary_identity,
)

GOLDEN = Path(__file__).parents[2] / "golden"
CASES = json.loads((GOLDEN / "identity" / "expected.json").read_text())


@pytest.mark.parametrize("case", CASES["files"], ids=lambda case: case["file"])
def test_identity_files_are_read_and_written_as_java_does(
    case: dict[str, str | int],
) -> None:
    """
    Both files give Java's values, and the values give both files.
    """
    folder = GOLDEN / "identity"
    identity = BrokerIdentity(
        str(case["clusterName"]), str(case["brokerName"]), int(case["brokerId"])
    )
    temporary = TemporaryIdentity(identity, str(case["registerCheckCode"]))
    content = (folder / str(case["file"])).read_bytes()
    assert identity == parse_identity(content)
    assert content == identity.encode()
    content = (folder / str(case["tempFile"])).read_bytes()
    assert temporary == parse_temporary_identity(content)
    assert content == temporary.encode()


@pytest.mark.parametrize("case", CASES["parse"], ids=lambda case: repr(case["text"]))
def test_parsing_agrees_but_for_separators_in_names(case: dict[str, object]) -> None:
    """
    RMQ-R15, RMQ-R16: fields too many, and fields left empty, are errors here.
    """
    text = str(case["text"])
    for kind, count in (("final", 3), ("temp", 4)):
        java = case[kind]
        assert isinstance(java, dict)
        parse = parse_identity if count == 3 else parse_temporary_identity
        if java.get("loaded") and text.count("#") == count - 1:
            read = parse(text.encode())
            identity = read.identity if isinstance(read, TemporaryIdentity) else read
            assert java["clusterName"] == identity.cluster
            assert java["brokerName"] == identity.broker
            assert java["brokerId"] == identity.broker_id
            if isinstance(read, TemporaryIdentity):
                assert java["registerCheckCode"] == read.register_check_code
        else:
            with pytest.raises(FormatError, match="brokerIdentity"):
                parse(text.encode())


@pytest.mark.parametrize("name", ["br#1", "#", ""])
def test_a_name_with_a_separator_is_refused(name: str) -> None:
    """
    RMQ-R15: ``br#1`` with id 7 would be read back as ``br`` with id 1.
    """
    with pytest.raises(InvalidError, match=r"has a '#'|is empty"):
        BrokerIdentity("c", name, 7)
    with pytest.raises(InvalidError, match=r"has a '#'|is empty"):
        BrokerIdentity(name, "b", 7)
    with pytest.raises(InvalidError, match=r"has a '#'|is empty"):
        TemporaryIdentity(BrokerIdentity("c", "b", 7), name)


def test_a_broker_id_has_64_bits() -> None:
    """
    As Java's does.
    """
    with pytest.raises(InvalidError, match="broker id 9223372036854775808 has more"):
        BrokerIdentity("c", "b", 2**63)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "b'' is not 3 fields"),
        (b"c#br", "b'c#br' is not 3 fields"),
        (b"c#br#1#7", "b'c#br#1#7' is not 3 fields"),
        (b"c#br#1\n", r"broker id '1\\n' is not a 64-bit number"),
        (b"c#\xff#1", "byte 2 is not UTF-8"),
        (b"\0" * 20, "is not 3 fields"),
    ],
)
def test_the_error_of_a_bad_identity_has_its_name_and_advice(
    content: bytes, message: str
) -> None:
    """
    RMQ-R16: an incomplete or damaged file never makes a new broker.
    """
    with pytest.raises(FormatError, match=message) as caught:
        parse_identity(content, "/store/brokerIdentity")
    assert str(caught.value).startswith("/store/brokerIdentity: ")
    assert "restore it, or remove it: a store that knows" in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_value_or_a_format_error_of_one_line(content: bytes) -> None:
    """
    No bytes raise another error.
    """
    for parse in (parse_identity, parse_temporary_identity):
        text = ""
        try:
            parse(content)
        except FormatError as error:
            text = str(error)

        assert "\n" not in text
