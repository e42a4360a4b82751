"""
What a `wait` of one space looks at in LMDB: rows below those of the records. Pure.

A space has a row with the number of the last transaction that changed it. The common
space has none, because programs from before there were spaces write to it: its token is
the number of the last transaction less the number of those that did not touch it. Such
a program counts none of its transactions, so each of them ends a wait.
"""

from __future__ import annotations

from collections.abc import Iterable

import lmdb

from pystore.records.spaces import COMMON, NEVER

__all__ = ["note_changes", "token_of"]

_ELSEWHERE = b"\0elsewhere"  # both are below every key of a record
_SPACE = b"\0space/"


def note_changes(rows: lmdb.Transaction, spaces: Iterable[str]) -> None:
    """
    Notes which spaces a writing transaction changes; to be called once in each.
    """
    changed = set(spaces)
    if COMMON not in changed:
        count = _number(rows.get(_ELSEWHERE)) + 1
        rows.put(_ELSEWHERE, count.to_bytes(8, "big"))
    for space in changed - {COMMON}:
        rows.put(_SPACE + space.encode(), rows.id().to_bytes(8, "big"))


def token_of(rows: lmdb.Transaction, space: str) -> int:
    """
    Returns the token of a space: it rises with each commit that changes it.
    """
    if space == COMMON:
        return NEVER + rows.id() - _number(rows.get(_ELSEWHERE))
    stored = rows.get(_SPACE + space.encode())
    return NEVER if stored is None else NEVER + _number(stored)


def _number(stored: bytes | memoryview[int] | None) -> int:
    return int.from_bytes(stored or b"", "big")
