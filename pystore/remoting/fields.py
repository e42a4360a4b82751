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
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
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
    "wire_name",
]


@dataclass(frozen=True, slots=True)
class _Bits:
    count: int


Int32 = Annotated[int, _Bits(32)]
"""A Java int."""

Int64 = Annotated[int, _Bits(64)]
"""A Java long."""

_is_integer = re.compile(r"[+-]?0{0,99}[0-9]{1,19}").fullmatch

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


class _Kind(NamedTuple):
    """
    What text stands for a value, and what value for a text; ``None``: for none.
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
            raise InvalidError(f"{name} has {bits} bits: {value}")
        return str(value)

    def read(text: str) -> int | None:
        if not _is_integer(text):
            return None
        value = int(text)
        return value if lowest <= value <= highest else None

    return _Kind(write, read)


_KINDS: dict[Any, _Kind] = {
    Int32: _integers(32),
    Int64: _integers(64),
    bool: _Kind(
        lambda _, value: "true" if value else "false",
        lambda text: text.lower() == "true",
    ),
    str: _Kind(lambda _, value: str(value), str),
}


@cache
def _form(header: type[DataclassInstance]) -> tuple[_Field, ...]:
    hints = get_type_hints(header, include_extras=True)
    return tuple(
        _Field(one.name, wire_name(one.name), _kind(hints[one.name]), one.default)
        for one in fields(header)
    )


def _kind(hint: object) -> _Kind:
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
    for attribute, name, kind, _ in _form(type(header)):
        value = getattr(header, attribute)
        if value is not None:
            found[name] = kind.write(name, value)
    return found


def decode_fields(header: type[H], ext_fields: Mapping[str, str]) -> H:
    """
    Returns the header of a command. Unknown fields are ignored.

    Raises:
        MissingField: a value that is needed is missing, or is not of its type.
    """
    values = []
    for _, name, kind, default in _form(header):
        text = ext_fields.get(name)
        value = None if text is None else kind.read(text)
        if value is None:
            if default is MISSING:
                shown = "is missing" if text is None else f"is no number: {text[:32]!r}"
                code = getattr(header, "missing_code", ResponseCode.SYSTEM_ERROR)
                raise MissingField(f"{header.__name__}: {name} {shown}", code)
            value = default
        values.append(value)
    return header(*values)
