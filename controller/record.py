"""
One set of brokers as the bytes of one record. Pure.

A line that people can read: the form's version, a checksum, and canonical JSON (keys
sorted, no spaces, nothing left out), so that equal states are equal bytes. Bytes are
hexadecimal digits, sets are lists in order.

Source: R258, R266; M.11.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import TypeVar, get_args, get_origin, get_type_hints

import xxhash

from pystore.controller.invariants import violations
from pystore.controller.state import SetState
from pystore.errors import FormatError

__all__ = ["VERSION", "decode", "encode"]

VERSION = 1
"""Of the form. A reader refuses a later one, and reads all earlier ones."""

_DIGITS_MAX = 9

_T = TypeVar("_T")

_MAGIC = b"pystore-set"


def encode(state: SetState) -> bytes:
    """
    Returns the record of a state.
    """
    text = json.dumps(
        _plain(state), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    body = text.encode("utf-8", "surrogatepass")
    return b"%s %d %s %s" % (_MAGIC, VERSION, _checksum(body), body)


def decode(raw: bytes, where: str) -> SetState:
    """
    Returns the state of a record.

    Args:
        raw: as `encode` made it.
        where: the key of the record, for the message.

    Raises:
        FormatError: the bytes are not of such a record, are damaged, are of a later
            version, or break what holds of every set.
    """
    magic, version, checksum, body = (*raw.split(b" ", 3), b"", b"", b"")[:4]
    if magic != _MAGIC or not _is_number(version):
        raise _bad(where, "it is no record of a broker set")
    if int(version) > VERSION:
        raise _bad(where, f"version {int(version)} is of a later pystore; update")
    if checksum != _checksum(body):
        raise _bad(where, "the checksum does not hold; restore it from a backup")
    try:
        state = _value(SetState, json.loads(body))
    except (KeyError, RecursionError, TypeError, ValueError) as reason:
        # The checksum holds, so somebody else wrote it, or a mistake of ours.
        raise _bad(where, f"a field is not of its kind: {reason}") from None
    assert isinstance(state, SetState)
    wrong = violations(state)
    if wrong:
        raise _bad(where, wrong[0])
    return state


def _is_number(text: bytes) -> bool:
    return text.isdigit() and len(text) <= _DIGITS_MAX


def _bad(where: str, what: str) -> FormatError:
    return FormatError(f"record {where}: {what}", path=where)


def _checksum(body: bytes) -> bytes:
    return xxhash.xxh3_64_hexdigest(body).encode()


def _plain(value: object) -> object:
    """
    Returns a value as JSON has it; sets in order.
    """
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, frozenset):
        return sorted(map(_plain, value), key=json.dumps)
    if isinstance(value, tuple):
        return list(map(_plain, value))
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    return value


def _value(kind: object, plain: object) -> object:
    """
    Returns what *plain* says, if it is of that kind.

    Raises:
        KeyError: a field is missing.
        TypeError: a value, or the number of fields, is another.
        ValueError: no such value is known.
    """
    if get_origin(kind) is UnionType:
        kind = next(one for one in get_args(kind) if one is not NoneType)
        return None if plain is None else _value(kind, plain)
    if get_origin(kind) in (tuple, frozenset):
        return _several(kind, _checked(list, plain))
    if is_dataclass(kind) and isinstance(kind, type):
        hints, given = _hints(kind), _checked(dict, plain)
        if given.keys() != hints.keys():
            raise TypeError(f"{kind.__name__} has fields {sorted(given)}")
        return kind(**{name: _value(hint, given[name]) for name, hint in hints.items()})
    if kind is bytes:
        return bytes.fromhex(_checked(str, plain))
    assert isinstance(kind, type)
    return kind(plain) if issubclass(kind, Enum) else _checked(kind, plain)


def _several(kind: object, plain: list[object]) -> object:
    kinds = get_args(kind)
    if get_origin(kind) is frozenset:
        found = frozenset(_value(kinds[0], one) for one in plain)
        if len(found) != len(plain):
            raise ValueError("a set has one thing twice")
        return found
    if kinds[-1] is Ellipsis:
        return tuple(_value(kinds[0], one) for one in plain)
    if len(kinds) != len(plain):
        raise TypeError(f"{plain} has not {len(kinds)} values")
    return tuple(map(_value, kinds, plain))


def _checked(kind: type[_T], plain: object) -> _T:
    # A bool is an int to Python, but not to us.
    if type(plain) is not kind:
        raise TypeError(f"{plain!r} is not of type {kind.__name__}")
    return plain


@cache
def _hints(kind: type) -> Mapping[str, object]:
    return get_type_hints(kind)
