"""
The core's table of next queue offsets, loaded from consume queues and records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pystore.bindings.ffi import Check
from pystore.consumequeue.queues import ConsumeQueues
from pystore.errors import CorruptError
from pystore.message.constants import NO_ENTRY

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pystore.core.log_writer import LogHandle
    from pystore.recovery.plan import RecoveryPlan
    from pystore.store.writer import Writer

QUEUE_OFFSET_MAX = 1 << 62
"""No queue reaches it: that of the core."""


def next_offsets(
    made: RecoveryPlan, queues: ConsumeQueues
) -> dict[tuple[str, int], int]:
    """
    The next queue offsets: from the metastore, or from the consume queues where these
    are newer. Entries of lost records do not count, but their queue offsets are not
    given again.
    """
    known = {(q.topic, q.queue_id): q.value for q in made.positions.next_offsets}
    if made.positions.as_of == 0:
        is_lost = made.corrupt is not None
        for key, length in queues.lengths_below(made.end_offset).items():
            # The program that wrote a queue decides, also if it began again at 0.
            is_lower = length < known.get(key, 0) and (is_lost or not length)
            known[key] = known[key] if is_lower else length
    return known


def load_table(writer: Writer, known: dict[tuple[str, int], int]) -> None:
    """
    Load the table of the core: the known offsets, raised by the later records. A topic
    that was deleted and made again counts from its last beginning.
    """
    made, log = writer.plan, writer.log
    log.queues_load(known)
    if made.positions.as_of:
        # The metastore has them.
        log.queues_take()
    start = max(made.positions.as_of, made.min_offset)
    if start >= made.end_offset:
        return
    for rows in log.scan(start, made.end_offset, Check.TOPIC):
        try:
            log.queues_note(rows)
        except CorruptError:
            # The impossible queue offset of a record moves no queue; `verify` reports
            # the record, and the dispatch gives it no entry.
            index = rows["queue_offset"]
            log.queues_note(rows[(index >= 0) & (index < QUEUE_OFFSET_MAX)])
    if not made.positions.as_of:
        # All records are later ones; entries of lost records still count.
        log.queues_load(known)


def queues_at(writer: Writer, offset: int) -> dict[tuple[str, int], int]:
    """
    The next queue offsets after a cut at an offset: for each queue the lowest number
    at or above it, else the present one. Reads the log from there on.
    """
    queues, end = writer.log.queues_fill()
    _lower(writer.log, queues, offset, end)
    return queues


def indexed_queues_at(
    writer: Writer,
    queues: ConsumeQueues,
    lock: AbstractContextManager[object],
    offset: int,
) -> dict[tuple[str, int], int]:
    """
    As `queues_at`; reads the consume queues, and of the log only what has no entries
    yet.

    Args:
        writer: of the log.
        queues: of the store.
        lock: held while queues change; taken for one queue at a time.
        offset: where a segment begins.
    """
    found, end = writer.log.queues_fill()
    with lock:
        dispatched = max(offset, min(queues.dispatched_end, end))
        all_queues = list(queues)
    min_offset = writer.log.ends().min_offset
    for queue in all_queues:
        with lock:
            if queue.end_offset <= offset:
                continue
            if offset <= min_offset:
                index = queue.first_index(offset)
            else:
                index = queue.length_below(offset)
        key = queue.topic, queue.queue_id
        found[key] = min(found.get(key, index), index)
    _lower(writer.log, found, dispatched, end)
    return found


def _lower(
    log: LogHandle, queues: dict[tuple[str, int], int], start: int, end: int
) -> None:
    """
    Lower numbers to those of the records in a range.
    """
    for rows in log.scan(start, end, Check.TOPIC):
        counted = rows[(rows["sys_flag"] & NO_ENTRY) == 0]
        keys = counted[["topic_id", "queue_id"]]
        groups, first = np.unique(keys, return_index=True)
        for group, at in zip(groups, first, strict=True):
            key = log.topic(int(group["topic_id"])), int(group["queue_id"])
            lowest = int(counted["queue_offset"][at])
            queues[key] = min(queues.get(key, lowest), lowest)
