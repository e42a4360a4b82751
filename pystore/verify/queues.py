"""
The consume queues against the log.

Queues are derived: whatever is wrong with one can be built anew from the log.
But until then a consumer is led astray, so it is damage. An entry must name a
record of its topic, queue and queue offset, with its size and tags code. A
record without an entry is none: queues follow the log.
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
"""Named one by one; of one queue, the rest is counted."""


class QueueCheck:
    """
    Compares rows with entries as they come; any thread may bring some.

    A context manager. Queues whose topics begin with ``%LMQ%`` are left alone:
    their entries belong to records of other topics.

    Args:
        root: of the store.
        log: names the topics of the rows.

    Attributes:
        queues: of the store.
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
            # A queue that cannot be read is a finding; the rest is not looked at.
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
        What a scan must fill in the rows; where there are no queues, nothing.
        """
        return Check.TAGS | Check.TOPIC if self._matched else NO_CHECK

    def note(self, rows: NDArray[Any]) -> None:
        """
        Compares the records of a scan with these ``columns``.
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
        # One thread per segment, and no two write the same slot as True wrongly.
        matched[slots[is_equal]] = True

    def finish(self, end: int, unseen: list[tuple[int, int]]) -> QueueReport:
        """
        Looks at the entries that no record matched.

        Args:
            end: of the log; what lies above it is not judged.
            unseen: ranges of the log that could not be scanned.
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
            for low, high in unseen:
                is_bad &= (entries["offset"] < low) | (entries["offset"] >= high)
            self._name(queue, np.flatnonzero(is_bad), entries)
        return report

    def _name(
        self, queue: ConsumeQueue, slots: NDArray[np.int64], entries: NDArray[Any]
    ) -> None:
        for slot in slots[:_DAMAGES_MAX].tolist():
            offset, size, _ = entries[slot].item()
            index = queue.first_slot + slot
            text = (
                f"queue offset {index} names {size} bytes at offset {offset}, which "
                "is no such record: move the folder away, it is built anew"
            )
            damage = Damage(str(queue.files.folder), offset, text)
            self._report.damages.append(damage)
        if len(slots) > _DAMAGES_MAX:
            text = f"{len(slots) - _DAMAGES_MAX} more entries of this queue are bad"
            damage = Damage(str(queue.files.folder), None, text)
            self._report.damages.append(damage)
