"""
Settings of a configuration file as text, with their parsers. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pystore.controller.client.discovery import parse_addresses
from pystore.errors import InvalidError

__all__ = ["INT_MAX", "SettingTexts"]

INT_MAX = (1 << 31) - 1
"""The largest number of Java's settings."""

_TRUTHS = {"true": True, "false": False}
_Value = TypeVar("_Value")


class SettingTexts:
    """
    Settings as text, with their parsers. The errors name the place, the setting, its
    value, and what is expected.

    Args:
        values: by their names.
        where: the file, and the place in it.
    """

    def __init__(self, values: dict[str, str], where: str) -> None:
        self.values = values
        self.where = where

    def fail(self, name: str, expected: str) -> InvalidError:
        """
        Returns the error of an invalid value.
        """
        return InvalidError(
            f"{self.where}: {name}={self.values.get(name, '')}: {expected}"
        )

    def parsed(self, name: str, parse: Callable[[str], _Value]) -> _Value:
        """
        Returns a value by a parser that raises `InvalidError`.
        """
        try:
            return parse(self.values[name])
        except InvalidError as error:
            # The parser knows neither file nor setting.
            raise self.fail(name, str(error)) from error

    def text(self, name: str, default: str | None = None) -> str:
        """
        Returns a text; without a default it must be there, and not empty.
        """
        found = self.values.get(name, "") or default
        if found is None:
            raise InvalidError(f"{self.where}: {name} is missing")
        return found

    def number(self, name: str, default: int, unit: str, most: int = INT_MAX) -> int:
        """
        Returns a positive whole number.
        """
        if name not in self.values:
            return default
        text = self.values[name]
        if text.isascii() and text.isdigit() and 0 < int(text[:20]) <= most:
            return int(text)
        raise self.fail(name, f"expected {unit}, from 1 to {most}")

    def flag(self, name: str, *, default: bool) -> bool:
        """
        Returns a truth value.
        """
        text = self.values.get(name, str(default)).lower()
        if text not in _TRUTHS:
            raise self.fail(name, "expected true or false")
        return _TRUTHS[text]

    def addresses(self, name: str) -> tuple[str, ...]:
        """
        Returns ``HOST:PORT`` of several, with ``;`` between them in the text.
        """
        return self.parsed(name, parse_addresses) if self.values.get(name) else ()
