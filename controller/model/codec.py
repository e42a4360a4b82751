"""
One set of brokers as the bytes of one record. Pure.

A line that people can read: the form's version, a checksum, and canonical JSON (keys
sorted, no spaces, nothing left out), so that equal states are equal bytes. Bytes are
hexadecimal digits, sets are lists in order.

Source: R258, R266; M.11.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import TypeVar, get_args, get_origin, get_type_hints

import xxhash

from pystore.controller.model.invariants import violations
from pystore.controller.model.state import SetState
from pystore.errors import FormatError

__all__ = ["VERSION", "decode", "encode"]

VERSION = 1
"""Of the form. A reader refuses a later one, and reads all earlier ones."""

_DIGITS_MAX = 9

_AS_IT_IS = {bool, int, str}

_T = TypeVar("_T")
_Reader = Callable[[object], object]

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
        state = _reader(SetState)(json.loads(body))
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
    if value is None or type(value) in _AS_IT_IS:
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, frozenset):
        return sorted(map(_plain, value), key=json.dumps)
    if isinstance(value, tuple):
        return list(map(_plain, value))
    kind: type = type(value)
    return {name: _plain(getattr(value, name)) for name in _hints(kind)}


@cache
def _reader(kind: object) -> _Reader:
    """
    Returns what makes a value of that kind of what JSON says.

    It raises a TypeError if that, or the number of fields, is of another kind, and a
    ValueError if no such value is known. A state has a few kinds, and a controller
    reads thousands of states as it starts: what a kind is made of is found out once.
    """
    kinds = get_args(kind)
    if get_origin(kind) is UnionType:
        read = _reader(next(one for one in kinds if one is not NoneType))
        return lambda plain: None if plain is None else read(plain)
    if get_origin(kind) is frozenset:
        return _set_reader(_reader(kinds[0]))
    if get_origin(kind) is tuple:
        return _tuple_reader([_reader(one) for one in kinds if one is not Ellipsis])
    assert isinstance(kind, type)
    return _fields_reader(kind) if is_dataclass(kind) else _word_reader(kind)


def _word_reader(kind: type) -> _Reader:
    if kind is bytes:
        return lambda plain: bytes.fromhex(_checked(str, plain))
    if issubclass(kind, Enum):
        return kind
    return lambda plain: _checked(kind, plain)


def _fields_reader(kind: type) -> _Reader:
    readers = {name: _reader(hint) for name, hint in _hints(kind).items()}

    def read(plain: object) -> object:
        given = _checked(dict, plain)
        if given.keys() != readers.keys():
            raise TypeError(f"{kind.__name__} has fields {sorted(given)}")
        return kind(**{name: one(given[name]) for name, one in readers.items()})

    return read


def _set_reader(one: _Reader) -> _Reader:
    def read(plain: object) -> object:
        several = _checked(list, plain)
        found = frozenset(map(one, several))
        if len(found) != len(several):
            raise ValueError("a set has one thing twice")
        return found

    return read


def _tuple_reader(readers: list[_Reader]) -> _Reader:
    """
    Returns what reads a pair, or any number of one kind.
    """

    def read(plain: object) -> object:
        several = _checked(list, plain)
        if len(readers) == 1:
            return tuple(map(readers[0], several))
        if len(readers) != len(several):
            raise TypeError(f"{several} has not {len(readers)} values")
        return tuple(one(value) for one, value in zip(readers, several, strict=True))

    return read


def _checked(kind: type[_T], plain: object) -> _T:
    # A bool is an int to Python, but not to us.
    if type(plain) is not kind:
        raise TypeError(f"{plain!r} is not of type {kind.__name__}")
    return plain


@cache
def _hints(kind: type) -> Mapping[str, object]:
    hints = get_type_hints(kind)
    stored = (one for one in fields(kind) if one.metadata.get("is_stored", True))
    return {one.name: hints[one.name] for one in stored}
