"""
Checks of what a caller gave: an error names the parameter, the value and its type.
"""

from __future__ import annotations

from numbers import Real
from typing import TypeVar

from pystore.errors import InvalidError

__all__ = ["instance", "number", "text"]

T = TypeVar("T")


def number(name: str, value: object) -> None:
    """
    Check that *value* is a number, whole or not.

    Raises:
        InvalidError: it is none.
    """
    if not isinstance(value, Real):
        raise _refusal(name, value, "a number")


def text(name: str, value: object) -> str:
    """
    Returns *value* if it is a string.

    Raises:
        InvalidError: it is none.
    """
    return instance(name, value, str)


def instance(name: str, value: object, kind: type[T]) -> T:
    """
    Returns *value* if it is a *kind*.

    Raises:
        InvalidError: it is none.
    """
    if not isinstance(value, kind):
        raise _refusal(name, value, f"a {kind.__name__}")
    return value


def _refusal(name: str, value: object, wanted: str) -> InvalidError:
    return InvalidError(f"{name}: {value!r} ({type(value).__name__}) is not {wanted}")
