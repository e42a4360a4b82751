"""
Settings of a configuration file as text, with their parsers. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import TypeVar

from pystore.controller.client.discovery import parse_addresses
from pystore.errors import InvalidError

__all__ = ["INT_MAX", "SettingTexts", "table_texts"]

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


def table_texts(
    table: object,
    keys: tuple[str, ...],
    place: str,
    *,
    ours: Mapping[str, str],
    of_host: Collection[str],
) -> dict[str, str]:
    """
    Returns the values of a table of TOML as text.

    Args:
        table: as it was parsed.
        keys: that it may have.
        place: file and table, for the messages.
        ours: other names that people write, and the key that is meant.
        of_host: the keys of the table of the host.

    Raises:
        InvalidError: it is no table, has another key, or a value that is no text.
    """
    if not isinstance(table, dict):
        raise InvalidError(f"{place}: {table!r}: expected a table")
    texts = {}
    for name, value in table.items():
        if name not in keys:
            near = ours.get(name) or get_close_matches(name, keys, 1, 0)[0]
            what = f"is no setting here: did you mean {near}?"
            if name in of_host:
                what = "is a setting of the host: move it into [host]"
            raise InvalidError(f"{place}: {name} {what}")
        many = value if isinstance(value, list) else [value]
        if not all(isinstance(one, str | int) for one in many):
            raise InvalidError(
                f"{place}: {name}={value!r}: expected text, a whole number, true or "
                "false, or a list of texts"
            )
        if any("\0" in one for one in many if isinstance(one, str)):
            raise InvalidError(f"{place}: {name}={value!r}: no text has a NUL")
        texts[name] = ";".join(
            str(one).lower() if isinstance(one, bool) else str(one) for one in many
        )
    return texts
