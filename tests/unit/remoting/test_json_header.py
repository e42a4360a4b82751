"""
Headers in JSON: what fastjson writes, and what other writers may send.
"""

from __future__ import annotations

import pytest

from pystore.errors import InvalidError, RemoteViolation
from pystore.remoting.codes import Language
from pystore.remoting.command import RemotingCommand
from pystore.remoting.json_header import decode_json_header, encode_json_header

METADATA = (
    b'{"code":1005,"flag":0,"language":"JAVA","opaque":8,'
    b'"serializeTypeCurrentRPC":"JSON","version":0}'
)


def decode(text: str) -> RemotingCommand:
    """
    Returns the command of a header without a body.
    """
    return decode_json_header(text.encode(), b"")


def test_a_header_is_the_bytes_that_were_observed() -> None:
    """
    Formats 3.7, there and back.
    """
    command = RemotingCommand(1005, 8, language=Language.JAVA)

    assert METADATA == encode_json_header(command)
    assert command == decode_json_header(METADATA, b"")


def test_values_that_were_not_put_in_quotes_are_text() -> None:
    """
    Clients in other languages send them; nulls are absent.
    """
    text = '{"code":1,"opaque":2,"extFields":{"a":7,"b":true,"c":1.50,"d":null}}'

    assert {"a": "7", "b": "true", "c": "1.50"} == decode(text).ext_fields


def test_a_missing_field_has_javas_default() -> None:
    """
    Unknown fields are ignored.
    """
    expected = RemotingCommand(7, 9, language=Language.JAVA)

    assert expected == decode('{"opaque":9,"later":[{}],"code":7,"remark":null}')


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the header is not JSON: Expecting value"),
        ("{", "the header is not JSON: Expecting"),
        ("[]", "the JSON header is not an object"),
        ("null", "the JSON header is not an object"),
        ("[" * 100_000, "the header is not JSON: "),
        ('{"opaque":1}', "header's code is missing"),
        ('{"code":1}', "header's opaque is missing"),
        ('{"code":"1","opaque":1}', "header's code is not a 32-bit integer"),
        ('{"code":true,"opaque":1}', "header's code is not a 32-bit integer"),
        ('{"code":1.0,"opaque":1}', "header's code is not a 32-bit integer"),
        ('{"code":1,"opaque":2147483648}', "header's opaque is not a 32-bit integer"),
        ('{"code":1,"opaque":' + "9" * 5000 + "}", "the header is not JSON: "),
        ('{"code":NaN,"opaque":1}', "the header is not JSON: NaN is not a number"),
        ('{"code":1,"opaque":1,"flag":"0"}', "header's flag is not a 32-bit integer"),
        ('{"code":1,"opaque":1,"remark":5}', "header's remark is not text"),
        ('{"code":1,"opaque":1,"language":5}', "header's language is not text"),
        ('{"code":1,"opaque":1,"extFields":[]}', "extFields are not an object"),
        ('{"code":1,"opaque":1,"extFields":{"a":[]}}', "field 'a' is not text"),
        ('{"code":1,"opaque":1,"remark":"\\ud800"}', "the JSON header is not UTF-8"),
    ],
)
def test_a_malformed_header_is_one_clear_error(text: str, why: str) -> None:
    """
    Whatever a peer sends, nothing else is raised.
    """
    with pytest.raises(RemoteViolation, match=why) as caught:
        decode(text)

    assert "\n" not in str(caught.value)


def test_bytes_that_are_not_utf_8_are_refused() -> None:
    """
    A name would not be the name that was meant.
    """
    with pytest.raises(RemoteViolation, match="the JSON header is not UTF-8"):
        decode_json_header(METADATA.replace(b"JAVA", b"J\xffVA"), b"")


def test_half_a_pair_of_surrogates_is_not_sent() -> None:
    """
    UTF-8 has no bytes for it.
    """
    with pytest.raises(InvalidError, match="not Unicode"):
        encode_json_header(RemotingCommand(1, remark="\ud800"))
