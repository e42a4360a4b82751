"""
The queue offsets of one segment's records, and its entries in the consume queues.

The queue offsets of a queue rise by one from record to record. A segment holds parts
of each queue: runs. `pystore.spark.verify.queue_continuity` joins the runs of all
segments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pystore.bindings.row import Check
from pystore.consumequeue.build import Dispatched, Group, groups_of
from pystore.consumequeue.queue import ENTRY_SIZE
from pystore.spark.verify.queue_entries import QueueEntries, rising_parts
from pystore.spark.verify.run_columns import RunColumns
from pystore.verify.entries import LostEntries

__all__ = ["QueueRun", "QueueRuns", "QueueSummary", "restart_of"]

_RUNS_MAX = 4096
"""Runs of one queue in one segment; runs above this number are not checked."""


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


def restart_of(runs: Sequence[QueueRun]) -> int:
    """
    The offset of the record at which a queue began last; 0: it is not known. Records
    before it are of a topic that was deleted and made again.
    """
    return max((run.first_offset for run in runs if run.first_index == 0), default=0)


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
        right: queue offsets ``[first, above)`` whose entry matches a record.
        lost: records without an entry, although they had one.
    """

    topic: str
    queue_id: int
    runs: list[QueueRun] = field(default_factory=list)
    is_cut: bool = False
    records: int = 0
    matched: int = 0
    missing: int = 0
    right: list[tuple[int, int]] = field(default_factory=list)
    lost: LostEntries = field(default_factory=LostEntries)


class QueueRuns:
    """
    Collects runs from the rows of a scan. One thread.

    Args:
        root: of the store, for its consume queues.
        topic: returns the name for a topic id.
        with_queues: whether the records are compared with the consume queues.
        queue_file_size: of the store's queue files, in bytes.
        dispatched_end: the records below had their entries on disk.
    """

    def __init__(
        self,
        root: Path,
        topic: Callable[[int], str],
        *,
        with_queues: bool,
        queue_file_size: int,
        dispatched_end: int = 0,
    ) -> None:
        self._topic = topic
        self._with_queues = with_queues
        self._dispatched_end = dispatched_end
        self._entries = QueueEntries(root, queue_file_size or ENTRY_SIZE)
        self._runs = RunColumns()
        self._found: dict[tuple[str, int], QueueSummary] = {}

    @property
    def columns(self) -> Check:
        """
        The columns that the scan must fill in the rows.
        """
        return Check.TOPIC | Check.TAGS if self._with_queues else Check.TOPIC

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
        if not self._with_queues:
            return
        has_restart = bool((rows["queue_offset"] == 0).any())
        for group in groups_of(rows, self._topic, Dispatched()):
            at = group.restart if has_restart else None
            self._compare(self._summary(group.topic, group.queue_id), group, at)

    def close(self) -> None:
        """
        Closes the queues' files.
        """
        self._entries.close()

    def _compare(self, summary: QueueSummary, group: Group, at: int | None) -> None:
        key = group.topic, group.queue_id
        if at is not None:
            # The records before it are of the topic that was deleted.
            summary.missing, summary.lost = 0, LostEntries()
        stored = self._entries.read(key, group.indexes)
        if stored.tobytes() == group.entries.tobytes() and (stored["size"] > 0).all():
            summary.matched += len(stored)
            _add_ranges(summary, group.indexes)
            return
        # The end of a queue is not known here: without an entry there are zeros.
        is_written = (stored["offset"] >= 0) & (stored["size"] > 0)
        is_there = group.indexes >= self._entries.first_slot(key)
        is_missing = ~is_written & is_there
        is_missing[: at or 0] = False
        summary.missing += int(is_missing.sum())
        was_there = is_missing & (group.entries["offset"] < self._dispatched_end)
        if was_there.any():
            offsets = group.entries["offset"][was_there]
            summary.lost.add(group.indexes[was_there], offsets)
        is_equal = is_written & (stored == group.entries)
        summary.matched += int(is_equal.sum())
        _add_ranges(summary, group.indexes[is_equal])


def _add_ranges(summary: QueueSummary, indexes: NDArray[np.int64]) -> None:
    """
    Adds queue offsets in the order of the log to the right ones.
    """
    for start, above in rising_parts(indexes):
        first, last = int(indexes[start]), int(indexes[above - 1])
        if summary.right and summary.right[-1][1] == first:
            summary.right[-1] = (summary.right[-1][0], last + 1)
        elif len(summary.right) < _RUNS_MAX:
            summary.right.append((first, last + 1))
        else:
            summary.is_cut = True
