"""
The queue offsets of one segment's records, and its entries in the consume queues.

The queue offsets of a queue rise by one from record to record. A segment holds parts
of each queue: runs. `pystore.spark.verify.queue_continuity` joins the runs of all
segments.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pystore.bindings.row import Check
from pystore.consumequeue.build import Dispatched, Group, groups_of
from pystore.consumequeue.files import QueueFiles
from pystore.consumequeue.queue import ENTRY_SIZE, ConsumeQueue
from pystore.fs.fd_cache import FdCache
from pystore.fs.layout import CONSUME_QUEUE
from pystore.spark.verify.run_columns import RunColumns

__all__ = ["QueueRun", "QueueRuns", "QueueSummary"]

_RUNS_MAX = 4096
"""Runs of one queue in one segment; runs above this number are not checked."""
_WRONG_MAX = 64


@dataclass(frozen=True, slots=True)
class QueueRun:
    """
    Records of one queue whose queue offsets rise by one.

    Attributes:
        first_index: queue offset of the first record.
        last_index: queue offset of the last record.
        first_offset: offset of the first record in the log.
        last_offset: offset of the last record in the log.
    """

    first_index: int
    last_index: int
    first_offset: int
    last_offset: int


@dataclass(slots=True)
class QueueSummary:
    """
    The records of one queue in one segment.

    Attributes:
        topic: of the queue.
        queue_id: of the queue.
        runs: in log order.
        is_cut: whether there were too many runs, and some are left out.
        records: number of records.
        matched: number of records whose entry matches.
        missing: number of records that have no entry yet.
        wrong: queue offsets whose entry does not match the record; at most 64.
        wrong_count: number of all such entries.
    """

    topic: str
    queue_id: int
    runs: list[QueueRun] = field(default_factory=list)
    is_cut: bool = False
    records: int = 0
    matched: int = 0
    missing: int = 0
    wrong: list[int] = field(default_factory=list)
    wrong_count: int = 0


class QueueRuns:
    """
    Collects runs from the rows of a scan. One thread.

    Args:
        root: of the store, for its consume queues.
        topic: returns the name for a topic id.
        lengths: the end of each consume queue, by topic and queue id; empty: the
            consume queues are not read.
        queue_file_size: of the store's queue files, in bytes.
    """

    def __init__(
        self,
        root: Path,
        topic: Callable[[int], str],
        lengths: Mapping[tuple[str, int], int],
        queue_file_size: int,
    ) -> None:
        self._root = root
        self._topic = topic
        self._lengths = lengths
        self._file_size = queue_file_size
        self._pool = FdCache()
        self._queues: dict[tuple[str, int], ConsumeQueue] = {}
        self._runs = RunColumns()
        self._found: dict[tuple[str, int], QueueSummary] = {}

    @property
    def columns(self) -> Check:
        """
        The columns that the scan must fill in the rows.
        """
        return Check.TOPIC | Check.TAGS if self._lengths else Check.TOPIC

    def summaries(self) -> list[QueueSummary]:
        """
        Returns a summary for each queue that has a record. Call it once, at the end.
        """
        for topic_id, queue_id, *run, records in self._runs.merged().tolist():
            summary = self._summary(self._topic(topic_id), queue_id)
            summary.records += records
            if len(summary.runs) < _RUNS_MAX:
                summary.runs.append(QueueRun(*run))
            else:
                summary.is_cut = True
        if self._runs.is_cut:
            for summary in self._found.values():
                summary.is_cut = True
        return list(self._found.values())

    def _summary(self, topic: str, queue_id: int) -> QueueSummary:
        key = topic, queue_id
        if key not in self._found:
            self._found[key] = QueueSummary(topic, queue_id)
        return self._found[key]

    def note(self, rows: NDArray[Any]) -> None:
        """
        Adds rows that hold ``columns``.

        Raises:
            StorageError: a consume queue cannot be read.
        """
        self._runs.note(rows)
        if not self._lengths:
            return
        for group in groups_of(rows, self._topic, Dispatched()):
            self._compare(self._summary(group.topic, group.queue_id), group)

    def close(self) -> None:
        """
        Closes the queues' files.
        """
        self._pool.close()

    def _compare(self, summary: QueueSummary, group: Group) -> None:
        end = self._lengths.get((group.topic, group.queue_id), 0)
        is_written = group.indexes < end
        summary.missing += int((~is_written).sum())
        if not is_written.any():
            return
        queue = self._queue(group.topic, group.queue_id, end)
        is_there = is_written & (group.indexes >= queue.first_slot)
        if not is_there.any():
            return
        indexes, entries = group.indexes[is_there], group.entries[is_there]
        is_equal = np.zeros(len(indexes), np.bool_)
        for start, above in _pieces(indexes):
            first, last = int(indexes[start]), int(indexes[above - 1])
            stored = queue.entries(first, last - first + 1)
            is_equal[start:above] = stored == entries[start:above]
        summary.matched += int(is_equal.sum())
        wrong = indexes[~is_equal].tolist()
        summary.wrong_count += len(wrong)
        summary.wrong += wrong[: _WRONG_MAX - len(summary.wrong)]

    def _queue(self, topic: str, queue_id: int, end: int) -> ConsumeQueue:
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            name = os.fsdecode(topic.encode("utf-8", "surrogateescape"))
            folder = self._root / CONSUME_QUEUE / name / str(queue_id)
            files = QueueFiles(
                folder, self._file_size, is_writable=False, pool=self._pool
            )
            files.load()
            queue = self._queues[topic, queue_id] = ConsumeQueue(topic, queue_id, files)
            # The driver found the end of the queue.
            queue.first_slot = files.bases[0] // ENTRY_SIZE if files.bases else end
            queue.max_index = end
        return queue


def _pieces(indexes: NDArray[np.int64]) -> list[tuple[int, int]]:
    """
    The parts of an array whose values rise by one, as ``[start, above)``.
    """
    edges = np.flatnonzero(np.diff(indexes) != 1) + 1
    return list(pairwise([0, *edges.tolist(), len(indexes)]))
