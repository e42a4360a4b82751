"""
The rules of AutoRecovery's records, checked at each commit of a virtual session: they
hold for any program, whatever it means to do.
"""

from __future__ import annotations

from collections.abc import Mapping

from pystore.autorecovery.auditor_term import AUDITOR
from pystore.autorecovery.segment_key import (
    DEAD,
    LOCKS,
    MARKS,
    SPACE,
    WINDOW,
    SegmentKey,
)
from pystore.records.memory import MemorySpace, MemoryStore
from pystore.records.ops import Delete, Hold, KeyOps

__all__ = ["RecoveryRules"]

_OF_AUDITOR = (
    WINDOW,
    "recovery/lost/",
    "recovery/checked",
    "recovery/status/auditor",
    "recovery/alarm/",
)


class RecoveryRules:
    """
    I1: a lock is taken only where there is none. I2: a mark goes only with the lock of
    a claim that saw its last change. I8: marks, dead segments and what the Auditor
    tells are written only by who holds the lock of the segment, or the term.

    Args:
        space: of all records.
    """

    def __init__(self, space: MemorySpace) -> None:
        self._space = space
        self._seen: dict[str, int] = {}

    def broken(self, store: MemoryStore, keys: Mapping[str, KeyOps]) -> list[str]:
        """
        Returns what a commit breaks. It is not made yet, and may be refused.

        Args:
            store: of the session that makes it.
            keys: what it does.
        """
        if not any(key.startswith(f"{SPACE}/") for key in keys):
            return []
        rows = self._space.rows
        own = {key for key, row in rows.items() if row.holder is store}
        found: list[str] = []
        for key, ops in keys.items():
            if ops.write is None or not key.startswith(f"{SPACE}/"):
                continue
            if key.startswith(LOCKS):
                found += self._lock(key, ops, own)
            elif key.startswith(MARKS):
                found += self._mark(key, ops, own)
            elif key.startswith(DEAD):
                found += _of_holder(key, key.removeprefix(DEAD), own)
            elif key.startswith(_OF_AUDITOR) and AUDITOR not in own:
                found.append(f"I8: {key} is written without the Auditor's term")
        return found

    def _lock(self, key: str, ops: KeyOps, own: set[str]) -> list[str]:
        mark = SegmentKey.parse(key.removeprefix(LOCKS)).mark
        if not isinstance(ops.write, Hold):
            return [] if key in own else [f"I8: {key} is deleted by another session"]
        if key in self._space.rows:
            return [f"I1: {key} is taken, and has a holder"]
        row = self._space.rows.get(mark)
        self._seen[mark] = 0 if row is None else row.version
        return []

    def _mark(self, key: str, ops: KeyOps, own: set[str]) -> list[str]:
        row = self._space.rows.get(key)
        text = key.removeprefix(MARKS)
        if isinstance(ops.write, Delete) and row is not None:
            if LOCKS + text not in own:
                return [f"I2: {key} is deleted without a claim"]
            if self._seen.get(key) != row.version:
                return [f"I2: {key} is deleted by a claim that did not see its change"]
        return _of_holder(key, text, own)


def _of_holder(key: str, text: str, own: set[str]) -> list[str]:
    """
    Its segment is claimed, or it is the Auditor's.
    """
    if LOCKS + text in own or AUDITOR in own:
        return []
    return [f"I8: {key} is written without a claim or the Auditor's term"]
