"""
The form of the records.
"""

from __future__ import annotations

import pytest

from pystore.autorecovery.record_form import FORM, decode_form, encode_form
from pystore.errors import FormatError


def test_fields_come_back_and_equal_ones_are_equal_bytes() -> None:
    """
    The number of the form is no field.
    """
    raw = encode_form({"b": [1, 2], "a": "ä"})

    assert raw == encode_form({"a": "ä", "b": [1, 2]})
    assert {"a": "ä", "b": [1, 2]} == decode_form(raw, "key").values


def test_a_later_form_is_refused_with_what_to_do() -> None:
    """
    A known field may mean something else in it.
    """
    with pytest.raises(FormatError, match=r"^record key: form 2 .* later pystore: upd"):
        decode_form(b'{"form":%d}' % (FORM + 1), "key")


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"\xff", b"{}", b'{"form":"1"}', b'{"form":true}']
)
def test_what_is_no_record_is_refused(raw: bytes) -> None:
    """
    In one line with the key.
    """
    with pytest.raises(FormatError, match=r"^record key: .*`forget` it$"):
        decode_form(raw, "key")


def test_a_field_of_another_type_is_refused() -> None:
    """
    By each of the readers, also if the field is missing.
    """
    fields = decode_form(encode_form({"n": -1, "t": 1, "l": ["a"], "o": 1}), "key")

    for read in (
        lambda: fields.number("n"),
        lambda: fields.number("none"),
        lambda: fields.text("t"),
        lambda: fields.list_of("l", int),
        lambda: fields.inner("o"),
    ):
        with pytest.raises(FormatError, match=r"^record key: "):
            read()
    assert ["a"] == fields.list_of("l", str)
    assert {"t": 1, "o": 1} == fields.other_than(("n", "l"))
