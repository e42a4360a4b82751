"""
The queues of a segment as columns, and those of a store, joined as segments come.

A segment has a run of records of each queue, and a store has many segments and queues.
So a run is a row of an array, and a run that goes on in the next segment is one row of
the store: the driver holds as much as there are queues and gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pystore.spark.verify.queue_runs import QueueRun, QueueSummary, restart_of
from pystore.spark.verify.run_columns import edges

__all__ = ["SegmentQueues", "StoreQueues", "pack_queues"]

_JOIN_ROWS = 1 << 18

_ROW = np.dtype(
    [
        ("topic", "<u4"),
        ("queue_id", "<i4"),
        ("first_index", "<i8"),
        ("last_index", "<i8"),
        ("first_offset", "<i8"),
        ("last_offset", "<i8"),
        ("is_right", "?"),
    ]
)


@dataclass(frozen=True, slots=True)
class SegmentQueues:
    """
    The queues of one segment.

    Attributes:
        topics: sorted.
        rows: of `table`, a run each, in the order of queues and of the log; ``topic``
            is an index of ``topics``. ``is_right``: each record has its entry.
        odd: what the rows of a queue do not say, without its runs.
    """

    topics: tuple[str, ...] = ()
    rows: bytes = b""
    odd: tuple[QueueSummary, ...] = ()

    def table(self) -> NDArray[Any]:
        """
        Returns the rows as an array.
        """
        return np.frombuffer(self.rows, _ROW)


def pack_queues(summaries: Sequence[QueueSummary]) -> SegmentQueues:
    """
    Returns the summaries of one segment's queues as columns.
    """
    topics = tuple(sorted({one.topic for one in summaries}))
    number = {topic: at for at, topic in enumerate(topics)}
    rows: list[tuple[int, int, int, int, int, int, bool]] = []
    odd = []
    for one in summaries:
        is_right = one.right == [
            (run.first_index, run.last_index + 1) for run in one.runs
        ]
        if one.is_cut or one.lost.count or (one.right and not is_right):
            odd.append(replace(one, runs=[], right=[] if is_right else one.right))
        topic, queue_id = number[one.topic], one.queue_id
        rows += [
            (
                topic,
                queue_id,
                run.first_index,
                run.last_index,
                run.first_offset,
                run.last_offset,
                is_right,
            )
            for run in one.runs
        ]
    return SegmentQueues(topics, np.array(rows, _ROW).tobytes(), tuple(odd))


class StoreQueues:
    """
    Joins the queues of a store's segments.
    """

    def __init__(self) -> None:
        self._topics: dict[str, int] = {}
        self._parts: list[NDArray[Any]] = []
        self._new_rows = 0
        self._odd: list[QueueSummary] = []
        self._last: tuple[tuple[str, ...], NDArray[np.uint32]] | None = None

    def add(self, found: SegmentQueues) -> None:
        """
        Adds a segment; segments come ascending.
        """
        self._odd += found.odd
        if not found.rows:
            return
        rows = found.table().copy()
        rows["topic"] = self._numbers(found.topics)[rows["topic"]]
        self._parts.append(rows)
        self._new_rows += len(rows)
        if self._new_rows > max(_JOIN_ROWS, len(self._parts[0])):
            self._join()

    def _numbers(self, topics: tuple[str, ...]) -> NDArray[np.uint32]:
        # Segments of a store have the same topics most often.
        if self._last is None or self._last[0] != topics:
            known = self._topics
            numbers = [known.setdefault(topic, len(known)) for topic in topics]
            self._last = topics, np.array(numbers, np.uint32)
        return self._last[1]

    def _join(self) -> NDArray[Any]:
        """
        Joins runs that go on, and returns all of them, sorted by queue.
        """
        rows = np.concatenate(self._parts) if self._parts else np.empty(0, _ROW)
        self._parts = []
        if len(rows):
            key = rows["topic"].astype(np.uint64) << np.uint64(32)
            key |= rows["queue_id"].view(np.uint32).astype(np.uint64)
            order = np.argsort(key, kind="stable")
            rows, key = rows[order], key[order]
            is_break = key[1:] != key[:-1]
            is_break |= rows["first_index"][1:] != rows["last_index"][:-1] + 1
            is_break |= rows["is_right"][1:] != rows["is_right"][:-1]
            starts, ends = edges(is_break)
            joined = rows[starts]
            joined["last_index"] = rows["last_index"][ends - 1]
            joined["last_offset"] = rows["last_offset"][ends - 1]
            rows = joined
        self._parts, self._new_rows = [rows], 0
        return rows

    def summaries(self) -> list[QueueSummary]:
        """
        Returns a summary of each queue of the store. Runs that go on are one.
        """
        names = list(self._topics)
        found: dict[tuple[str, int], QueueSummary] = {}
        for topic, queue_id, *run, is_right in self._join().tolist():
            one = _summary(found, names[topic], queue_id)
            one.runs.append(QueueRun(*run))
            if is_right:
                one.right.append((run[0], run[1] + 1))
        for odd in self._odd:
            one = _summary(found, odd.topic, odd.queue_id)
            one.right += odd.right
            if odd.lost.count:
                one.lost.join(odd.lost.since(restart_of(one.runs)))
            one.is_cut = one.is_cut or odd.is_cut
        return list(found.values())


def _summary(
    found: dict[tuple[str, int], QueueSummary], topic: str, queue_id: int
) -> QueueSummary:
    key = topic, queue_id
    if key not in found:
        found[key] = QueueSummary(topic, queue_id)
    return found[key]
