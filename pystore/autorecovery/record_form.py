"""
The form of AutoRecovery's records: one JSON object with the number of its form. Pure.

Fields that this program does not know are kept: a later program may add some without
a new form. A later *form* is refused, because a field that this program knows may mean
something else in it.

Source: docs/autorecovery.md, records.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pystore.errors import FormatError

__all__ = ["FORM", "RecordFields", "decode_form", "encode_form"]

FORM = 1
"""Of all records. A reader refuses later forms."""

_T = TypeVar("_T")


_JSON = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class RecordFields:
    """
    The fields of a record as read.

    Attributes:
        values: by name.
        where: the key of the record, for messages.
    """

    values: Mapping[str, object]
    where: str

    def number(self, name: str) -> int:
        """
        Returns a field that is a number from 0 on.

        Raises:
            FormatError: it is not; as of the methods below.
        """
        found = self.values.get(name)
        # A bool is an int, but no number.
        if type(found) is not int or found < 0:
            raise self.bad(f"{name} is {found!r}")
        return found

    def text(self, name: str) -> str:
        """
        Returns a field that is text.
        """
        return self._of(name, str)

    def list_of(self, name: str, kind: type[_T]) -> list[_T]:
        """
        Returns a field that is a list of values of one type.
        """
        found = self._of(name, list)
        if not all(isinstance(one, kind) for one in found):
            raise self.bad(f"{name} is {found!r}")
        return found

    def inner(self, name: str) -> RecordFields:
        """
        Returns a field that is an object with fields.
        """
        return RecordFields(self._of(name, dict), f"{self.where}, {name}")

    def other_than(self, known: Collection[str]) -> dict[str, object]:
        """
        Returns the fields that this program does not know.
        """
        return {key: one for key, one in self.values.items() if key not in known}

    def bad(self, what: str) -> FormatError:
        """
        Returns the error of a record that cannot be understood.
        """
        return FormatError(
            f"record {self.where}: {what}: another program wrote it, or it is damaged: "
            "look at it, then `forget` it",
            path=self.where,
        )

    def _of(self, name: str, kind: type[_T]) -> _T:
        found = self.values.get(name)
        if not isinstance(found, kind):
            raise self.bad(f"{name} is {found!r}")
        return found


def encode_form(values: Mapping[str, object]) -> bytes:
    """
    Returns the record of fields: equal fields are equal bytes.
    """
    text = _JSON.encode({**values, "form": FORM})
    return text.encode("utf-8", "surrogatepass")


def decode_form(raw: bytes, where: str) -> RecordFields:
    """
    Returns the fields of a record.

    Args:
        raw: the value of the record.
        where: its key, for messages.

    Raises:
        FormatError: it is not JSON, or has a later form.
    """
    try:
        values = json.loads(raw.decode("utf-8", "surrogatepass"))
    except (RecursionError, ValueError) as error:
        # Of JSON and of UTF-8.
        raise RecordFields({}, where).bad("it is not JSON") from error
    if not isinstance(values, dict):
        raise RecordFields({}, where).bad("it is not an object of JSON")
    form = RecordFields(values, where).number("form")
    if form > FORM:
        raise FormatError(
            f"record {where}: form {form} was written by a later pystore: update this "
            "one",
            path=where,
        )
    del values["form"]
    return RecordFields(values, where)
