"""
What the worker of one process has done since the process began.

Source: BookKeeper's `testReplicationStats`; docs/operations.md, *Managing
AutoRecovery*.
"""

from __future__ import annotations

import threading

from pystore.autorecovery.repair_verdict import VerdictKind

__all__ = ["RepairCounts"]


class RepairCounts:
    """
    Counts that only grow. Any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends = dict.fromkeys(VerdictKind, 0)
        self._copies = self._bytes = 0

    @property
    def ends(self) -> dict[VerdictKind, int]:
        """
        How many claims ended so.
        """
        with self._lock:
            return dict(self._ends)

    @property
    def repaired_copies(self) -> int:
        """
        Copies of segments that were damaged or missing, and are right since.
        """
        return self._copies

    @property
    def moved_bytes(self) -> int:
        """
        Bytes of blocks that went into copies, also into those that were not repaired
        in the end.
        """
        return self._bytes

    def add(self, end: VerdictKind | None, copies: int, moved_bytes: int) -> None:
        """
        Counts one claim.

        Args:
            end: of it; ``None``: it was given back, or lost.
            copies: that were repaired.
            moved_bytes: into all copies.
        """
        with self._lock:
            if end is not None:
                self._ends[end] += 1
            self._copies += copies
            self._bytes += moved_bytes
