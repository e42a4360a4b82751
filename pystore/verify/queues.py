"""
Compares the consume queues with the log.

Consume queues are derived from the log and can be rebuilt. Until then a consumer reads
wrong records, so a wrong entry is damage. An entry must name a record of its topic,
queue and queue offset, with the size and the tags code of the record. A record without
an entry is not damage: the queues follow the log.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pystore.bindings.ffi import NO_CHECK, Check
from pystore.consumequeue.build import Dispatched, Group, groups_of
from pystore.consumequeue.queue import ConsumeQueue, is_filler
from pystore.consumequeue.queues import ConsumeQueues, queue_file_size_of
from pystore.core.log_reader import LogReader
from pystore.errors import PystoreError
from pystore.fs.layout import CONSUME_QUEUE
from pystore.verify.report import Damage, QueueReport

__all__ = ["QueueCheck"]

_LIGHT = "%LMQ%"
_DAMAGES_MAX = 20
"""Listed for one queue; the rest is counted."""


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
    """

    def __init__(self, root: Path, log: LogReader) -> None:
        self._log = log
        self._root = root
        self._lock = threading.Lock()
        self._report = QueueReport()
        self._matched: dict[tuple[str, int], NDArray[np.bool_]] = {}
        self.queues = ConsumeQueues(root, queue_file_size_of(root))
        try:
            self.queues.load()
        except PystoreError as error:
            # A queue that cannot be read is damage; the others are not checked then.
            path = error.path or str(root / CONSUME_QUEUE)
            self._report.damages.append(Damage(path, None, str(error)))
        for queue in self.queues:
            slots = queue.max_index - queue.first_slot
            self._matched[queue.topic, queue.queue_id] = np.zeros(slots, np.bool_)

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
            self._miss(len(rows))
            return
        for group in groups_of(rows, self._log.topic, Dispatched()):
            queue = self.queues.get(group.topic, group.queue_id)
            if queue is None:
                self._miss(len(group.indexes))
            else:
                self._compare(queue, group)

    def _miss(self, count: int) -> None:
        with self._lock:
            self._report.missing += count

    def _compare(self, queue: ConsumeQueue, group: Group) -> None:
        slots = group.indexes - queue.first_slot
        matched = self._matched[queue.topic, queue.queue_id]
        is_there = (slots >= 0) & (slots < len(matched))
        self._miss(int((group.indexes >= queue.max_index).sum()))
        if not is_there.any():
            return
        slots, entries = slots[is_there], group.entries[is_there]
        first, last = int(slots.min()), int(slots.max())
        stored = queue.entries(queue.first_slot + first, last - first + 1)
        is_equal = stored[slots - first] == entries
        # Threads may set the same slot, but only to True, and only if it is right.
        matched[slots[is_equal]] = True

    def finish(self, end: int, unscanned: list[tuple[int, int]]) -> QueueReport:
        """
        Reports the entries that no record matched.

        Args:
            end: the end of the log; entries above it are not checked.
            unscanned: ranges of the log that could not be scanned.
        """
        report = self._report
        start = self._log.ends().min_offset
        for queue in self.queues:
            report.queues += 1
            if queue.topic.startswith(_LIGHT):
                continue
            matched = self._matched[queue.topic, queue.queue_id]
            report.entries += int(matched.sum())
            entries = queue.entries(queue.first_slot, len(matched))
            is_bad = ~matched & ~is_filler(entries) & (entries["offset"] >= start)
            is_bad &= entries["offset"] + entries["size"] <= end
            for low, high in unscanned:
                is_bad &= (entries["offset"] < low) | (entries["offset"] >= high)
            self._add_damages(queue, np.flatnonzero(is_bad), entries)
        return report

    def _add_damages(
        self, queue: ConsumeQueue, slots: NDArray[np.int64], entries: NDArray[Any]
    ) -> None:
        for slot in slots[:_DAMAGES_MAX].tolist():
            offset, size, _ = entries[slot].item()
            index = queue.first_slot + slot
            text = (
                f"queue offset {index} names {size} bytes at offset {offset}, which "
                "are not its record: move the folder away, and it is rebuilt"
            )
            damage = Damage(str(queue.files.folder), offset, text)
            self._report.damages.append(damage)
        if len(slots) > _DAMAGES_MAX:
            text = f"{len(slots) - _DAMAGES_MAX} more entries of this queue are bad"
            damage = Damage(str(queue.files.folder), None, text)
            self._report.damages.append(damage)
