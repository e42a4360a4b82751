"""
The spaces of a record store: the keys with one first component. Pure.

The space of ``recovery/ur/a`` is ``recovery``. A `wait` is about one space, and
ZooKeeper keeps each space in nodes of its own, so programs that share a store do not
pay for each other. Keys without a ``/`` and those below ``controller/`` are in the
*common* space: they were written before there were spaces, and stay where they are.

Source: docs/record-store.md, spaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pystore.records.ops import KeyOps

__all__ = ["COMMON", "NEVER", "changed_spaces", "may_hold", "space_of"]

COMMON: Final = ""
"""The common space, which every store has."""

NEVER: Final = 1
"""The token of a space without any commit; smaller than every other one."""

_IN_COMMON = "controller"


def space_of(key: str) -> str:
    """
    Returns the space of a key, or that of a prefix with a ``/``.
    """
    first, slash, _ = key.partition("/")
    return first if slash and first != _IN_COMMON else COMMON


def may_hold(space: str, prefix: str) -> bool:
    """
    Returns whether a space may have keys with a prefix.
    """
    if "/" in prefix:
        return space == space_of(prefix)
    # The common space has keys with and without a first component.
    return space == COMMON or space.startswith(prefix)


def changed_spaces(
    keys: Mapping[str, KeyOps], is_there: Mapping[str, bool]
) -> list[str]:
    """
    Returns the spaces that a commit changes, in order.

    Args:
        keys: of the commit.
        is_there: for each of them, whether its record exists.
    """
    changed = (k for k, ops in keys.items() if ops.changes(is_there=is_there[k]))
    return sorted({space_of(key) for key in changed})
