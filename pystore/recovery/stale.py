"""
Stale records: bytes from before a truncation, told by queue offsets (A8).

RocketMQ leaves the bytes above a truncation as they are. Whole records among them
repeat offsets of their queue, or leave a gap. A clock that was set back changes store
times only, so the offsets of each queue go on by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pystore.consumequeue.build import Dispatched, groups_of
from pystore.consumequeue.queues import ConsumeQueues

__all__ = ["QueueOrder"]


class QueueOrder:
    """
    The next queue offset of each queue, along a scan.

    Args:
        queues: their ends are the first expected offsets.
        topic_name: the topic of a topic id of the rows.
    """

    def __init__(self, queues: ConsumeQueues, topic_name: Callable[[int], str]) -> None:
        self._topic_name = topic_name
        self._next = {(q.topic, q.queue_id): q.max_index for q in queues}

    def note(self, rows: NDArray[Any]) -> None:
        """
        Takes the offsets of records that are not stale.
        """
        for group in groups_of(rows, self._topic_name, Dispatched()):
            self._next[group.topic, group.queue_id] = int(group.indexes[-1]) + 1

    def first_stale(self, rows: NDArray[Any]) -> int | None:
        """
        Returns the offset of the first record out of order; ``None``: there is none.

        A queue that restarts at 0 belongs to a topic that was made anew. The first
        record of an unknown queue may have any offset. Inner batches count several
        messages and are not compared.
        """
        stale = None
        for group in groups_of(rows, self._topic_name, Dispatched()):
            key = group.topic, group.queue_id
            first = self._next.get(key, int(group.indexes[0]))
            expected = np.concatenate(([first], group.indexes[:-1] + 1))
            is_wrong = (group.indexes != expected) & (group.indexes != 0)
            self._next[key] = int(group.indexes[-1]) + 1
            if is_wrong.any():
                offset = int(group.entries["offset"][is_wrong.argmax()])
                stale = offset if stale is None else min(stale, offset)
        return stale
