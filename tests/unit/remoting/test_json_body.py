"""
JSON of bodies: what RocketMQ's writer leaves out of it, and what it is strict about.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystore.errors import InvalidError, RemoteViolation
from pystore.remoting.json_body import (
    parse_body,
    read_list,
    read_object,
    read_value,
    render_body,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=8,
)


@given(VALUES)
def test_a_rendered_body_is_parsed_back(value: object) -> None:
    """
    And by others, too: it is JSON.
    """
    body = render_body(value)

    assert value == parse_body(body) == json.loads(body)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{1:"a",2:"b"}', {"1": "a", "2": "b"}),
        (b'{ -7 : {0:[1,2]},"3":4}', {"-7": {"0": [1, 2]}, "3": 4}),
        (b'{"a{1:2":"{3:4, \\" ,5:6"}', {"a{1:2": '{3:4, " ,5:6'}),
        (b"[1,2]", [1, 2]),
    ],
)
def test_bare_numbers_are_keys_but_not_within_text(body: bytes, value: object) -> None:
    """
    Maps by broker id are written so by Java.
    """
    assert value == parse_body(body)


def test_names_are_in_order_and_nulls_left_out() -> None:
    """
    As RocketMQ's classes write it.
    """
    value = {"b": None, "a": {"d": "\u00e9\n", "c": [True, {"e": None}]}}

    assert '{"a":{"c":[true,{}],"d":"\u00e9\\n"}}'.encode() == render_body(value)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "the body is not JSON: Expecting value"),
        (b"{1:}", "the body is not JSON"),
        (b'"\xff"', "the body is not UTF-8"),
        (b"[" * 100_000, "the body is not JSON"),
        (b"[NaN]", "the body is not JSON: NaN is not a number"),
        (b"9" * 5000, "the body is not JSON"),
        (b'"' * 50_001, "the body is not JSON"),
        (b"{" + b"9" * 50_000, "the body is not JSON"),
        (b'"' + b'\\"' * 100_000, "the body is not JSON"),
    ],
)
def test_a_body_that_is_not_json_is_one_clear_error(body: bytes, why: str) -> None:
    """
    Nor does it take long to say so.
    """
    with pytest.raises(RemoteViolation, match=why):
        parse_body(body)


def test_half_a_pair_of_surrogates_is_not_sent() -> None:
    """
    UTF-8 has no bytes for it.
    """
    with pytest.raises(InvalidError, match="not Unicode"):
        render_body(["\ud800"])


def test_values_of_another_type_are_named() -> None:
    """
    A boolean is not a number, and 64 bits are 64 bits.
    """
    row = read_object({"a": True, "b": 1 << 63, "c": 7}, "row")

    assert read_value(row, "a", bool)
    assert 7 == read_value(row, "c", int)
    for name, why in (
        ("a", "not of type int"),
        ("b", "beyond 64 bits"),
        ("d", "missing"),
    ):
        with pytest.raises(RemoteViolation, match=f"a body whose {name} is {why}"):
            read_value(row, name, int)
    with pytest.raises(RemoteViolation, match="whose row is not an object"):
        read_object([], "row")
    with pytest.raises(RemoteViolation, match="whose row is not a list"):
        read_list({}, "row")
