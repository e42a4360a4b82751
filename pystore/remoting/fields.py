"""
Encodes and decodes header values, by name and type. Pure.

A header is a dataclass. The name on the wire is the field's name in camel case, the
type is its annotation, and a field without a default is required.

Java keeps the default if a value is missing or has another type, and does not enforce
required fields. We do the same for optional fields. A missing required field is an
error here at once; Java fails later.

Source: formats 3.4; docs/remoting.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache, lru_cache
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NamedTuple,
    TypeVar,
    get_args,
    get_type_hints,
)

from pystore.errors import InvalidError, RemoteViolation
from pystore.remoting.codes import ResponseCode

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = [
    "Int32",
    "Int64",
    "MissingField",
    "decode_fields",
    "encode_fields",
    "field_values",
    "wire_name",
]


@dataclass(frozen=True, slots=True)
class _Bits:
    count: int


Int32 = Annotated[int, _Bits(32)]
"""A Java int."""

Int64 = Annotated[int, _Bits(64)]
"""A Java long."""

_INTEGER_CHARS_MAX = 1 + 99 + 19
_KNOWN_MAX = 1 << 12  # of numbers, each some hundred bytes
_is_integer = re.compile(r"[+-]?0{0,99}[0-9]{1,19}").fullmatch

H = TypeVar("H", bound="DataclassInstance")


class MissingField(RemoteViolation):
    """
    A request lacks a required value; the connection stays open.

    Attributes:
        code: of RocketMQ's answer.
    """

    def __init__(self, message: str, code: ResponseCode) -> None:
        super().__init__(message)
        self.code = code


class _Kind(NamedTuple):
    """
    The conversions of a type to text and back; ``None``: not a value of the type.
    """

    write: Callable[[str, Any], str]
    read: Callable[[str], str | int | None]


class _Field(NamedTuple):
    attribute: str
    name: str
    kind: _Kind
    default: Any


def wire_name(attribute: str) -> str:
    """
    Returns the name on the wire: ``masterBrokerId`` for ``master_broker_id``.
    """
    first, *rest = attribute.split("_")
    return first + "".join(map(str.capitalize, rest))


def _integers(bits: int) -> _Kind:
    lowest, highest = -(1 << bits - 1), (1 << bits - 1) - 1

    def write(name: str, value: int) -> str:
        if not lowest <= value <= highest:
            raise InvalidError(f"{name} is outside {bits} bits: {value}")
        return str(value)

    # Of the numbers in the heartbeats of a broker most repeat.
    @lru_cache(_KNOWN_MAX)
    def known(text: str) -> int | None:
        if not _is_integer(text):
            return None
        value = int(text)
        return value if lowest <= value <= highest else None

    def read(text: str) -> int | None:
        # A longer one is none, and would take memory.
        return known(text) if len(text) <= _INTEGER_CHARS_MAX else None

    return _Kind(write, read)


_TEXT = _Kind(lambda _, value: str(value), str)
_KINDS: dict[Any, _Kind] = {
    Int32: _integers(32),
    Int64: _integers(64),
    bool: _Kind(
        lambda _, value: "true" if value else "false",
        lambda text: text.lower() == "true",
    ),
    str: _TEXT,
}


@cache
def _form(header: type[DataclassInstance]) -> tuple[_Field, ...]:
    hints = get_type_hints(header, include_extras=True)
    return tuple(
        _Field(one.name, wire_name(one.name), _kind(hints[one.name]), one.default)
        for one in fields(header)
    )


@cache
def _reading(
    header: type[DataclassInstance],
) -> tuple[tuple[str, Callable[[str], str | int | None] | None, Any], ...]:
    return tuple(
        (one.name, None if one.kind is _TEXT else one.kind.read, one.default)
        for one in _form(header)
    )


def _kind(hint: object) -> _Kind:
    """
    Returns the conversions of an annotation, with or without ``None`` beside it.
    """
    return next(_KINDS[one] for one in (hint, *get_args(hint)) if one in _KINDS)


def encode_fields(header: DataclassInstance) -> dict[str, str]:
    """
    Returns the values that are not ``None``, as text.

    Raises:
        InvalidError: a number is outside the range of its field.
    """
    found = {}
    for attribute, name, kind, _ in _form(type(header)):
        value = getattr(header, attribute)
        if value is not None:
            found[name] = kind.write(name, value)
    return found


def decode_fields(header: type[H], ext_fields: Mapping[str, str]) -> H:
    """
    Returns the header of a command. Unknown fields are ignored.

    Raises:
        MissingField: a required value is missing, or has another type.
    """
    return header(*field_values(header, ext_fields))


def field_values(header: type[H], ext_fields: Mapping[str, str]) -> list[Any]:
    """
    Returns the values of a header in the order of its fields, as `decode_fields` does.
    It makes no object of the header, which costs as much as the decoding.

    Raises:
        MissingField: a required value is missing, or has another type.
    """
    get = ext_fields.get
    values: list[Any] = []
    for name, read, default in _reading(header):
        text = get(name)
        value = text if text is None or read is None else read(text)
        if value is None:
            if default is MISSING:
                shown = (
                    "is missing" if text is None else f"is not a number: {text[:32]!r}"
                )
                code = getattr(header, "missing_code", ResponseCode.SYSTEM_ERROR)
                raise MissingField(f"{header.__name__}: {name} {shown}", code)
            value = default
        values.append(value)
    return values
