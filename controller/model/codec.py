"""
The state of one broker set as the bytes of one record. Pure.

A record is one readable line: a magic, the format version, a checksum, and canonical
JSON (sorted keys, no spaces, all fields), so that equal states are equal bytes. Bytes
are hexadecimal digits, sets are sorted lists. A library does not carry this: msgspec
writes bytes as base64, cannot sort sets of dataclasses, and accepts unknown fields and
repeated members.

Source: RMQ-R258, RMQ-R266; RMQ-M.11.
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

VERSION = 5
"""Of the format. A reader refuses later versions, and reads all earlier ones."""

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
        raw: the value of the record.
        where: the key of the record, for the message.

    Raises:
        FormatError: the bytes are no such record, are damaged, have a later version, or
            break an invariant.
    """
    magic, version, checksum, body = (*raw.split(b" ", 3), b"", b"", b"")[:4]
    if magic != _MAGIC or not _is_number(version):
        raise _bad(where, "it is not a record of a broker set")
    if int(version) > VERSION:
        raise _bad(
            where, f"version {int(version)} was written by a later pystore; update"
        )
    if checksum != _checksum(body):
        raise _bad(where, "the record is damaged: restore or rebuild it")
    try:
        state = _reader(SetState, int(version))(json.loads(body))
    except (KeyError, RecursionError, TypeError, ValueError) as reason:
        # The checksum matches, so another program wrote it, or a defect of ours.
        raise _bad(where, f"a field has an invalid value: {reason}") from None
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
    Returns a value of JSON for a value of the state; sets become sorted lists.
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
    return {name: _plain(getattr(value, name)) for name in _hints(kind, VERSION)}


@cache
def _reader(kind: object, version: int) -> _Reader:
    """
    Returns the function that converts JSON of a version to a value of that type.

    That function raises a TypeError for a wrong type or wrong fields, and a ValueError
    for an unknown value. A controller reads thousands of states when it starts, so each
    type is inspected once.
    """
    kinds = get_args(kind)
    if get_origin(kind) is UnionType:
        read = _reader(next(one for one in kinds if one is not NoneType), version)
        return lambda plain: None if plain is None else read(plain)
    if get_origin(kind) is frozenset:
        return _set_reader(_reader(kinds[0], version))
    if get_origin(kind) is tuple:
        known = [one for one in kinds if one is not Ellipsis]
        return _tuple_reader([_reader(one, version) for one in known])
    assert isinstance(kind, type)
    return _fields_reader(kind, version) if is_dataclass(kind) else _word_reader(kind)


def _word_reader(kind: type) -> _Reader:
    if kind is bytes:
        return lambda plain: bytes.fromhex(_checked(str, plain))
    if issubclass(kind, Enum):
        return kind
    return lambda plain: _checked(kind, plain)


def _fields_reader(kind: type, version: int) -> _Reader:
    hints = _hints(kind, version)
    readers = {name: _reader(hint, version) for name, hint in hints.items()}

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
            raise ValueError("a set has a member twice")
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
            raise TypeError(f"{several} does not have {len(readers)} values")
        return tuple(one(value) for one, value in zip(readers, several, strict=True))

    return read


def _checked(kind: type[_T], plain: object) -> _T:
    # In Python a bool is an int, but not in this format.
    if type(plain) is not kind:
        raise TypeError(f"{plain!r} is not of type {kind.__name__}")
    return plain


@cache
def _hints(kind: type, version: int) -> Mapping[str, object]:
    """
    Returns the types of the fields that a version stores; later ones have defaults.
    """
    hints = get_type_hints(kind)
    stored = (one for one in fields(kind) if one.metadata.get("is_stored", True))
    return {
        one.name: hints[one.name]
        for one in stored
        if one.metadata.get("since", 1) <= version
    }
