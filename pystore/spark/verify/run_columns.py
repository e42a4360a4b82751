"""
Runs of rising queue offsets, found in whole arrays of rows.

A batch of rows is sorted by queue. It is cut where the queue changes, or where the
queue offset does not rise by one. Each part becomes one row: a run. There is no loop
over records or queues.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pystore.message.constants import INNER_BATCH, NO_ENTRY

__all__ = ["RUN_DTYPE", "RunColumns", "edges"]

_MERGE_ROWS = 1 << 16
_ROWS_MAX = 1 << 20
"""Runs of one segment; a log with more is damaged, and the rest is not checked."""

RUN_DTYPE = np.dtype(
    [
        ("topic_id", "<u4"),
        ("queue_id", "<i4"),
        ("first_index", "<i8"),
        ("last_index", "<i8"),
        ("first_offset", "<i8"),
        ("last_offset", "<i8"),
        ("records", "<i8"),
    ]
)
"""Records of one queue whose queue offsets rise by one."""


class RunColumns:
    """
    Collects runs from rows in log order. One thread.

    Attributes:
        is_cut: whether there were too many runs, and some are left out.
    """

    def __init__(self) -> None:
        self._parts: list[NDArray[Any]] = []
        self._rows = 0
        self.is_cut = False

    def note(self, rows: NDArray[Any]) -> None:
        """
        Adds rows that hold topic ids.
        """
        flags = rows["sys_flag"] & (NO_ENTRY | INNER_BATCH)
        if flags.any():
            rows = rows[flags == 0]
        if not len(rows) or self.is_cut:
            return
        queue = rows["queue_id"].view(np.uint32).astype(np.uint64)
        key = rows["topic_id"].astype(np.uint64) << np.uint64(32) | queue
        indexes = rows["queue_offset"].astype(np.int64)
        offsets = rows["offset"].astype(np.int64)
        if (key[1:] < key[:-1]).any():
            order = np.argsort(key, kind="stable")
            key, indexes, offsets = key[order], indexes[order], offsets[order]
        starts, ends = edges((np.diff(key) != 0) | (np.diff(indexes) != 1))
        part = np.empty(len(starts), RUN_DTYPE)
        part["topic_id"] = key[starts] >> np.uint64(32)
        part["queue_id"] = key[starts].astype(np.uint32).view(np.int32)
        part["first_index"], part["last_index"] = indexes[starts], indexes[ends - 1]
        part["first_offset"], part["last_offset"] = offsets[starts], offsets[ends - 1]
        part["records"] = ends - starts
        self._parts.append(part)
        self._rows += len(part)
        if self._rows > _MERGE_ROWS * len(self._parts[:2]):
            self._parts = [self.merged()]
            self._rows = len(self._parts[0])
            self.is_cut = self._rows > _ROWS_MAX

    def merged(self) -> NDArray[Any]:
        """
        Returns the runs as ``RUN_DTYPE``, sorted by queue, those of a queue in log
        order.
        """
        if not self._parts:
            return np.empty(0, RUN_DTYPE)
        runs = np.concatenate(self._parts)
        key = runs["topic_id"].astype(np.uint64) << np.uint64(32)
        key |= runs["queue_id"].view(np.uint32).astype(np.uint64)
        order = np.argsort(key, kind="stable")
        runs, key = runs[order], key[order]
        is_next = runs["first_index"][1:] == runs["last_index"][:-1] + 1
        starts, ends = edges((np.diff(key) != 0) | ~is_next)
        whole = runs[starts]
        whole["last_index"] = runs["last_index"][ends - 1]
        whole["last_offset"] = runs["last_offset"][ends - 1]
        whole["records"] = np.add.reduceat(runs["records"], starts)
        return whole


def edges(
    is_break: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """
    Returns the starts and ends of the parts of an array.

    Args:
        is_break: for each element but the last, whether a part ends after it.
    """
    inner = np.flatnonzero(is_break) + 1
    starts = np.concatenate(([0], inner))
    return starts, np.concatenate((inner, [len(is_break) + 1]))
