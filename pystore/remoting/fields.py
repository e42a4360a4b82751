"""
Header values as text, by name and type. Pure.

A header is a dataclass whose fields are the table: the wire's name is the field's in
camel case, the type is its annotation, and a field without a default is needed.

Java keeps the default where a value is missing or is not of its type, and never
enforces what it calls required. So do we, but for what is needed: Java then fails
somewhere behind, we say at once what is missing.

Source: formats 3.4; docs/remoting.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_type_hints

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
    "wire_name",
]


@dataclass(frozen=True, slots=True)
class _Bits:
    count: int


Int32 = Annotated[int, _Bits(32)]
"""A Java int."""

Int64 = Annotated[int, _Bits(64)]
"""A Java long."""

_INTEGER = re.compile(r"[+-]?0{0,99}[0-9]{1,19}")
_KINDS: dict[Any, _Bits | type] = {
    Int32: _Bits(32),
    Int64: _Bits(64),
    bool: bool,
    str: str,
}

H = TypeVar("H", bound="DataclassInstance")


class MissingField(RemoteViolation):
    """
    A request lacks a value that it needs; the connection is fine.

    Attributes:
        code: what RocketMQ answers then.
    """

    def __init__(self, message: str, code: ResponseCode) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class _Field:
    attribute: str
    name: str
    kind: _Bits | type
    is_needed: bool


def wire_name(attribute: str) -> str:
    """
    Returns the name on the wire: ``masterBrokerId`` for ``master_broker_id``.
    """
    first, *rest = attribute.split("_")
    return first + "".join(map(str.capitalize, rest))


@cache
def _form(header: type[DataclassInstance]) -> tuple[_Field, ...]:
    hints = get_type_hints(header, include_extras=True)
    return tuple(
        _Field(
            one.name,
            wire_name(one.name),
            _kind(hints[one.name]),
            one.default is MISSING,
        )
        for one in fields(header)
    )


def _kind(hint: object) -> _Bits | type:
    """
    Returns what the annotation stands for; ``None`` beside it changes nothing.
    """
    return next(_KINDS[one] for one in (hint, *get_args(hint)) if one in _KINDS)


def encode_fields(header: DataclassInstance) -> dict[str, str]:
    """
    Returns the values that are not ``None``, as text.

    Raises:
        InvalidError: a number that its field does not hold.
    """
    found = {}
    for one in _form(type(header)):
        value = getattr(header, one.attribute)
        if value is not None:
            found[one.name] = _encode(one, value)
    return found


def _encode(one: _Field, value: str | int) -> str:
    if one.kind is bool:
        return "true" if value else "false"
    if isinstance(one.kind, _Bits):
        assert isinstance(value, int)
        if not _holds(one.kind, value):
            raise InvalidError(f"{one.name} has {one.kind.count} bits: {value}")
    return str(value)


def decode_fields(header: type[H], ext_fields: Mapping[str, str]) -> H:
    """
    Returns the header of a command. Unknown fields are ignored.

    Raises:
        MissingField: a value that is needed is missing, or is not of its type.
    """
    values: dict[str, Any] = {}
    for one in _form(header):
        text = ext_fields.get(one.name)
        value = None if text is None else _decode(one.kind, text)
        if value is not None:
            values[one.attribute] = value
        elif one.is_needed:
            shown = "is missing" if text is None else f"is no number: {text[:32]!r}"
            code = getattr(header, "missing_code", ResponseCode.SYSTEM_ERROR)
            raise MissingField(f"{header.__name__}: {one.name} {shown}", code)
    return header(**values)


def _decode(kind: _Bits | type, text: str) -> str | int | bool | None:
    if kind is str:
        return text
    if kind is bool:
        return text.lower() == "true"
    assert isinstance(kind, _Bits)
    if not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if _holds(kind, value) else None


def _holds(kind: _Bits, value: int) -> bool:
    return -(1 << kind.count - 1) <= value < 1 << kind.count - 1
