"""
Checks of arguments: the text names parameter, value and type.
"""

from __future__ import annotations

import pytest

from pystore.core.arguments import instance, number, text
from pystore.errors import InvalidError


def test_good_arguments_are_returned() -> None:
    """
    What is right passes.
    """
    number("hours", 1.5)
    assert "x" == text("topic", "x")
    assert b"x" == instance("batch", b"x", bytes)


def test_a_wrong_argument_is_named() -> None:
    """
    One line for a person who called it.
    """
    with pytest.raises(InvalidError, match=r"^hours: 'x' \(str\) is not a number$"):
        number("hours", "x")
    with pytest.raises(InvalidError, match=r"^topic: b'x' \(bytes\) is not a str$"):
        text("topic", b"x")
