"""
The JSON of bodies, as RocketMQ's classes write and read it. Pure.

Their writer puts no quotes around numeric keys, which is not JSON; their reader accepts
both forms. So both are read here, and quotes are written.

Source: formats 4.14; docs/remoting.md.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn, TypeVar

from pystore.errors import InvalidError, RemoteViolation

__all__ = ["parse_body", "read_list", "read_object", "read_value", "render_body"]

T = TypeVar("T", int, str, bool)

# A whole string, which stays, also if it does not end; or a numeric key.
_BARE_KEY = re.compile(
    rb'"(?:[^"\\]++|\\.)*+"?|([{,]\s*+)(-?[0-9]++)(?=\s*+:)', re.DOTALL
)


def render_body(value: object) -> bytes:
    """
    Returns the value as RocketMQ writes it: sorted names, no white space, no null in an
    object.

    Raises:
        InvalidError: a text is not Unicode.
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
        RemoteViolation: the body is not JSON, even with quotes around numeric keys.
    """
    try:
        value: object = json.loads(
            _BARE_KEY.sub(_quoted, body).decode(), parse_constant=_refuse_constant
        )
    except UnicodeDecodeError as error:
        # Another encoding, or not text.
        raise RemoteViolation("the body is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        # The text names the position; or the nesting is too deep.
        raise RemoteViolation(f"the body is not JSON: {error}") from error
    return value


def _quoted(match: re.Match[bytes]) -> bytes:
    before, number = match.groups()
    return match[0] if number is None else before + b'"' + number + b'"'


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def read_object(value: object, name: str) -> dict[str, Any]:
    """
    Checks that the value is an object, and returns it.

    Args:
        value: from `parse_body`.
        name: of the value, for people.

    Raises:
        RemoteViolation: it is not.
    """
    if not isinstance(value, dict):
        raise RemoteViolation(f"a body whose {name} is not an object")
    return value


def read_list(value: object, name: str) -> list[Any]:
    """
    Checks that the value is a list, and returns it.

    Args:
        value: from `parse_body`.
        name: of the value, for people.

    Raises:
        RemoteViolation: it is not.
    """
    if not isinstance(value, list):
        raise RemoteViolation(f"a body whose {name} is not a list")
    return value


def read_value(row: dict[str, Any], name: str, kind: type[T]) -> T:
    """
    Returns the value of a name, checked for its type and for 64 bits.

    Raises:
        RemoteViolation: it is missing, or has another type.
    """
    value = row.get(name)
    is_bool = isinstance(value, bool)
    if not isinstance(value, kind) or is_bool is not (kind is bool):
        shown = "missing" if value is None else f"not of type {kind.__name__}"
        raise RemoteViolation(f"a body whose {name} is {shown}")
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise RemoteViolation(f"a body whose {name} is beyond 64 bits")
    return value
