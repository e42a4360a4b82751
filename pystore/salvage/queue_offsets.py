"""
The queue offsets of salvaged records: which repeat, and which no queue can hold.

A queue is kept as runs of consecutive queue offsets, so that its size depends on the
gaps between records and not on their number.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pystore.consumequeue.queue import ENTRY_SIZE

__all__ = ["OffsetRuns", "possible"]

_INDEX_MAX = (2**63 - 1) // ENTRY_SIZE - 2

_GROUP_LEAST = 8
"""So many records near each other have no damaged numbers."""

_GAP_MAX = 1 << 24
"""The most fillers in a row: 320 MiB of a queue file."""


class OffsetRuns:
    """
    The queue offsets of one queue that have a record. One thread at a time.
    """

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    @property
    def runs(self) -> list[tuple[int, int]]:
        """
        Begin and end of each run, ascending.
        """
        return list(zip(self._starts, self._ends, strict=True))

    def add(self, indexes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """
        Adds queue offsets, and returns which of them are new.

        Args:
            indexes: in the order of the log.
        """
        is_new = np.ones(len(indexes), np.bool_)
        if not len(indexes):
            return is_new
        steps = np.diff(indexes)
        if (steps > 0).all() and (not self._ends or indexes[0] >= self._ends[-1]):
            edges = [0, *(np.flatnonzero(steps != 1) + 1).tolist(), len(indexes)]
            for first, stop in pairwise(edges):
                self._append(int(indexes[first]), int(indexes[stop - 1]) + 1)
            return is_new
        for at, index in enumerate(indexes.tolist()):
            is_new[at] = self._insert(index)
        return is_new

    def _append(self, start: int, end: int) -> None:
        if self._ends and self._ends[-1] == start:
            self._ends[-1] = end
        else:
            self._starts.append(start)
            self._ends.append(end)

    def _insert(self, index: int) -> bool:
        at = bisect_right(self._starts, index) - 1
        if at >= 0 and index < self._ends[at]:
            return False
        follows = at >= 0 and self._ends[at] == index
        leads = at + 1 < len(self._starts) and self._starts[at + 1] == index + 1
        if follows and leads:
            self._ends[at] = self._ends[at + 1]
            del self._starts[at + 1], self._ends[at + 1]
        elif follows:
            self._ends[at] = index + 1
        elif leads:
            self._starts[at + 1] = index
        else:
            self._starts.insert(at + 1, index)
            self._ends.insert(at + 1, index + 1)
        return True

    def main_range(self, gap_max: int) -> tuple[int, int]:
        """
        Returns begin and end of the queue; records outside have a damaged number.

        Runs are of the queue if no more than *gap_max* queue offsets lie between them
        and others, or if they are no single records and fillers can bridge the gap, as
        of a topic that was made anew.

        Args:
            gap_max: the most queue offsets in a row whose records may be lost.
        """
        groups: list[_Group] = []
        for start, end in self.runs:
            if groups and start - groups[-1].end <= gap_max:
                before = groups.pop()
                groups.append(_Group(before.start, end, before.records + end - start))
            else:
                groups.append(_Group(start, end, end - start))
        if not groups:
            return 0, 0
        main = max(groups, key=lambda group: group.records)
        groups = [one for one in groups if one.records >= _GROUP_LEAST or one is main]
        at = groups.index(main)
        first, end = main.start, main.end
        for group in reversed(groups[:at]):
            if first - group.end <= _GAP_MAX:
                first = group.start
        for group in groups[at + 1 :]:
            if group.start - end <= _GAP_MAX:
                end = group.end
        return first, end


class _Group(NamedTuple):
    start: int
    end: int
    records: int


def possible(indexes: NDArray[Any]) -> NDArray[np.bool_]:
    """
    Marks the queue offsets whose entry has a place in some queue.
    """
    return (indexes >= 0) & (indexes <= _INDEX_MAX)
