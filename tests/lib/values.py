"""
Changes of values of any kind.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

__all__ = ["replace"]

_Value = TypeVar("_Value")


def replace(value: _Value, **changes: Any) -> _Value:
    """
    Returns a copy of a dataclass or of a named tuple, with other fields.
    """
    kind: Any = value
    is_tuple = isinstance(value, tuple)
    changed: _Value = (
        kind._replace(**changes) if is_tuple else dataclasses.replace(kind, **changes)
    )
    return changed
