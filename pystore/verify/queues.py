"""
Compares the consume queues with the log.

Consume queues are derived from the log and can be rebuilt. Until then a consumer reads
wrong records, so a wrong entry is damage. An entry must name a record of its topic,
queue and queue offset, with the size of the record. A record above the end of its queue
is not damage: the queues follow the log.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pystore.bindings.ffi import NO_CHECK, Check
from pystore.consumequeue.build import Dispatched, Group, groups_of
from pystore.consumequeue.queue import ConsumeQueue
from pystore.consumequeue.queues import ConsumeQueues, queue_file_size_of
from pystore.core.log_reader import LogReader
from pystore.errors import CorruptError, StorageError
from pystore.fs.layout import CONSUME_QUEUE
from pystore.verify.entries import (
    LIGHT,
    EntryJudge,
    LostEntries,
    SlotMarks,
    damaged_queue,
    read_place,
)
from pystore.verify.report import QueueReport

__all__ = ["QueueCheck"]


@dataclass(slots=True)
class _Misses:
    """
    Records of one queue in one segment without an entry, and those that had one.
    """

    count: int = 0
    lost: LostEntries = field(default_factory=LostEntries)


class QueueCheck:
    """
    Compares rows of scanned records with queue entries. For any thread.

    A context manager. Queues whose topics begin with ``%LMQ%`` are not checked: their
    entries belong to records of other topics.

    Args:
        root: the directory of the store.
        log: has the topic names of the rows.

    Attributes:
        queues: the consume queues of the store.
        dispatched_end: the records below had their entries on disk.
    """

    def __init__(self, root: Path, log: LogReader) -> None:
        self._log = log
        self._segment_size = log.ends().segment_size
        self._root = root
        self._lock = threading.Lock()
        self._report = QueueReport()
        # Slots whose entry names its record, and slots that a record has.
        self._matched: dict[tuple[str, int], NDArray[np.bool_]] = {}
        self._named: dict[tuple[str, int], NDArray[np.bool_]] = {}
        # By segment: where a queue begins anew, the records before have no entries.
        self._misses: dict[tuple[str, int], dict[int, _Misses]] = defaultdict(dict)
        self._restarts: dict[tuple[str, int], int] = {}
        # Queues that cannot be read: that is their finding.
        self._bad: dict[tuple[str, int], CorruptError] = {}
        self.dispatched_end = 0
        self.queues = ConsumeQueues(root, queue_file_size_of(root))
        try:
            self.queues.load(bad=self._bad)
        except StorageError:
            # No answer is no damage.
            self.queues.close()
            raise
        for error in self._bad.values():
            path = error.path or str(root / CONSUME_QUEUE)
            damage = damaged_queue(path, None, str(error), "file form")
            self._report.damages.append(damage)
        for queue in self.queues:
            slots = queue.max_index - queue.first_slot
            self._matched[queue.topic, queue.queue_id] = np.zeros(slots, np.bool_)
            self._named[queue.topic, queue.queue_id] = np.zeros(slots, np.bool_)

    def __enter__(self) -> QueueCheck:
        return self

    def __exit__(self, *_: object) -> None:
        self.queues.close()

    @property
    def columns(self) -> Check:
        """
        The columns that a scan must fill in; none if there are no queues.
        """
        return Check.TAGS | Check.TOPIC if self._matched else NO_CHECK

    def note(self, rows: NDArray[Any]) -> None:
        """
        Compares the records of a scan that filled in ``columns``.
        """
        if not self._matched:
            with self._lock:
                self._report.missing += len(rows)
            return
        has_restart = bool((rows["queue_offset"] == 0).any())
        for group in groups_of(rows, self._log.topic, Dispatched()):
            if (group.topic, group.queue_id) in self._bad:
                continue
            at = group.restart if has_restart else None
            queue = self.queues.get(group.topic, group.queue_id)
            if queue is None:
                self._miss(group, np.ones(len(group.indexes), np.bool_), at)
            else:
                self._miss(group, group.indexes >= queue.max_index, at)
                self._compare(queue, group)

    def _miss(
        self, group: Group, is_missing: NDArray[np.bool_], at: int | None
    ) -> None:
        if at is None and not is_missing.any():
            return
        offsets = group.entries["offset"]
        base = int(offsets[0]) // self._segment_size
        key = group.topic, group.queue_id
        with self._lock:
            misses = self._misses[key]
            if at is not None:
                restart = int(offsets[at])
                self._restarts[key] = max(restart, self._restarts.get(key, 0))
                is_missing[:at] = False
                # One thread scans a segment, from its beginning on.
                misses.pop(base, None)
            if is_missing.any():
                found = misses.setdefault(base, _Misses())
                found.count += int(is_missing.sum())
                was_there = is_missing & (offsets < self.dispatched_end)
                if was_there.any():
                    found.lost.add(group.indexes[was_there], offsets[was_there])

    def _compare(self, queue: ConsumeQueue, group: Group) -> None:
        slots = group.indexes - queue.first_slot
        matched = self._matched[queue.topic, queue.queue_id]
        is_there = (slots >= 0) & (slots < len(matched))
        if not is_there.any():
            return
        slots, entries = slots[is_there], group.entries[is_there]
        self._named[queue.topic, queue.queue_id][slots] = True
        first, last = int(slots.min()), int(slots.max())
        stored = queue.entries(queue.first_slot + first, last - first + 1)
        is_equal = stored[slots - first] == entries
        # Threads may set the same slot, but only to True, and only if it is right.
        matched[slots[is_equal]] = True

    def finish(
        self, end: int, unscanned: list[tuple[int, int]], *, is_at_rest: bool
    ) -> QueueReport:
        """
        Reports the entries that no record matched.

        Args:
            end: the end of the log.
            unscanned: ranges of the log that could not be scanned.
            is_at_rest: whether the store was closed cleanly: then no entry may name
                bytes above the end.
        """
        report = self._report
        ends = self._log.ends()
        judge = EntryJudge(
            self._root, self._segment_size, lambda offset: read_place(self._log, offset)
        )
        for queue in self.queues:
            report.queues += 1
            if queue.topic.startswith(LIGHT):
                continue
            matched = self._matched[queue.topic, queue.queue_id]
            report.entries += int(matched.sum())
            marks = SlotMarks(
                queue.first_slot,
                queue.entries(queue.first_slot, len(matched)),
                matched,
                self._named[queue.topic, queue.queue_id],
                np.arange(len(matched)) < _last(matched),
            )
            judge.check_slots(
                queue,
                [marks],
                log=(ends.min_offset, end),
                unscanned=unscanned,
                is_at_rest=is_at_rest,
            )
            judge.check_end(queue, self.queues.file_size, end)
        for (topic, queue_id), misses in sorted(self._misses.items()):
            restart = self._restarts.get((topic, queue_id), 0)
            lost = LostEntries()
            for base in sorted(misses):
                if base >= restart // self._segment_size:
                    report.missing += misses[base].count
                    lost.join(misses[base].lost)
            if lost.count:
                judge.check_lost(topic, queue_id, lost)
        if not self._matched and self.dispatched_end and not self._bad:
            judge.check_none(report.missing)
        report.damages += judge.damages
        report.other_tags = judge.other_tags
        return report


def _last(matched: NDArray[np.bool_]) -> int:
    """
    The last slot that a record matched; -1 without one.
    """
    found = np.flatnonzero(matched)
    return int(found[-1]) if len(found) else -1
