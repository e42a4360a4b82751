"""
JSON of bodies, as RocketMQ's classes write and read it. Pure.

Their writer leaves numbers bare where they are keys, which is no JSON; their reader
takes them with quotes, too. So both are read here, and quotes are written.

Source: formats 4.14; docs/remoting.md.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn, TypeVar

from pystore.errors import InvalidError, RemoteViolation

__all__ = ["parse_body", "read_list", "read_object", "read_value", "render_body"]

T = TypeVar("T", int, str, bool)

# A whole text, which stays, also if nothing ends it; or a number that is a key.
_BARE_KEY = re.compile(
    rb'"(?:[^"\\]++|\\.)*+"?|([{,]\s*+)(-?[0-9]++)(?=\s*+:)', re.DOTALL
)


def render_body(value: object) -> bytes:
    """
    Returns the value as RocketMQ writes it: names in order, no white space, no nulls
    within an object.

    Raises:
        InvalidError: text that UTF-8 cannot say.
    """
    text = json.dumps(
        _without_nulls(value), ensure_ascii=False, separators=(",", ":"), sort_keys=True
    )
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        # Half of a pair of surrogates, which only a program makes.
        raise InvalidError("text of the body is not Unicode") from error


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {
            str(name): _without_nulls(one)
            for name, one in value.items()
            if one is not None
        }
    if isinstance(value, list | tuple):
        return [_without_nulls(one) for one in value]
    return value


def parse_body(body: bytes) -> object:
    """
    Returns the value of a body.

    Raises:
        RemoteViolation: no JSON, not even with quotes around its keys.
    """
    try:
        value: object = json.loads(
            _BARE_KEY.sub(_quoted, body).decode(), parse_constant=_refuse_constant
        )
    except UnicodeDecodeError as error:
        # Of another encoding, or no text at all.
        raise RemoteViolation("the body is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        # What is wrong with it, where; or brackets without end.
        raise RemoteViolation(f"the body is no JSON: {error}") from error
    return value


def _quoted(match: re.Match[bytes]) -> bytes:
    before, number = match.groups()
    return match[0] if number is None else before + b'"' + number + b'"'


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def read_object(value: object, name: str) -> dict[str, Any]:
    """
    Returns the value, which is an object.

    Args:
        value: from `parse_body`.
        name: what it is, for people.

    Raises:
        RemoteViolation: it is none.
    """
    if not isinstance(value, dict):
        raise RemoteViolation(f"a body whose {name} is no object")
    return value


def read_list(value: object, name: str) -> list[Any]:
    """
    Returns the value, which is a list.

    Args:
        value: from `parse_body`.
        name: what it is, for people.

    Raises:
        RemoteViolation: it is none.
    """
    if not isinstance(value, list):
        raise RemoteViolation(f"a body whose {name} is no list")
    return value


def read_value(row: dict[str, Any], name: str, kind: type[T]) -> T:
    """
    Returns the value of that name, of that type and of 64 bits.

    Raises:
        RemoteViolation: it is missing or another.
    """
    value = row.get(name)
    is_bool = isinstance(value, bool)
    if not isinstance(value, kind) or is_bool is not (kind is bool):
        shown = "missing" if value is None else f"no {kind.__name__}"
        raise RemoteViolation(f"a body whose {name} is {shown}")
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise RemoteViolation(f"a body whose {name} is beyond 64 bits")
    return value
