"""
Settings as text.
"""

from __future__ import annotations

import pytest

from pystore.broker.setting_texts import SettingTexts
from pystore.errors import InvalidError

TEXTS = SettingTexts(
    {"text": "a", "empty": "", "number": "12", "flag": "TRUE", "at": "h:1;g:2"}, "f"
)


def test_values_are_parsed_by_their_kind() -> None:
    """
    One that is missing has its default.
    """
    assert "a" == TEXTS.text("text")
    assert "b" == TEXTS.text("empty", "b")
    assert (12, 7) == (TEXTS.number("number", 7, "ms"), TEXTS.number("none", 7, "ms"))
    assert TEXTS.flag("flag", default=False)
    assert not TEXTS.flag("none", default=False)
    assert ("h:1", "g:2") == TEXTS.addresses("at")
    assert () == TEXTS.addresses("none")


@pytest.mark.parametrize("text", ["0", "-1", "x", "", "1.5", "9" * 30])
def test_a_bad_number_names_place_setting_and_value(text: str) -> None:
    """
    And what is expected.
    """
    texts = SettingTexts({"size": text}, "f: node 1")
    with pytest.raises(InvalidError) as raised:
        texts.number("size", 1, "a number of bytes")
    expected = f"f: node 1: size={text}: expected a number of bytes, from 1 to"
    assert str(raised.value).startswith(expected)


def test_a_missing_text_and_a_bad_flag_are_refused() -> None:
    """
    With one line each.
    """
    with pytest.raises(InvalidError, match="f: other is missing"):
        TEXTS.text("other")
    with pytest.raises(InvalidError, match="f: text=a: expected true or false"):
        TEXTS.flag("text", default=True)
    with pytest.raises(InvalidError, match="f: text=a: 'a' is no HOST:PORT"):
        TEXTS.addresses("text")
