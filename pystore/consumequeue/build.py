"""
Entries of consume queues, made of the rows of a scan. Pure.

Rows are sorted into groups of one topic and queue, in the order of the log. The
entries of a group are planned as runs of consecutive queue offsets.

Source: docs/format.md, consume queues (RocketMQ 5.3: ``ConsumeQueue``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pystore.consumequeue.queue import ENTRY_DTYPE, ENTRY_SIZE, Entries
from pystore.errors import CorruptError
from pystore.message.constants import INNER_BATCH, NO_ENTRY

__all__ = [
    "BuildPlan",
    "Dispatched",
    "Group",
    "QueueGap",
    "RefusedRecords",
    "groups_of",
    "plan_group",
]

_INDEX_MAX = (2**63 - 1) // ENTRY_SIZE


class QueueGap(NamedTuple):
    """
    Queue offsets without a record in the log.
    """

    topic: str
    queue_id: int
    first: int
    missing: int


class RefusedRecords(NamedTuple):
    """
    Records that cannot have an entry: offset of the first, number, and reason.
    """

    offset: int
    records: int
    reason: str


@dataclass(slots=True)
class Dispatched:
    """
    The result of a dispatch.

    Attributes:
        written: the number of written entries.
        repeated: records that had an entry, or have a queue offset with an entry.
        transactions: PREPARED and ROLLBACK records, which have no entry.
        gaps: slots that were filled because the log has no record for them.
        refused: records that cannot have an entry.
    """

    written: int = 0
    repeated: int = 0
    transactions: int = 0
    gaps: list[QueueGap] = field(default_factory=list)
    refused: list[RefusedRecords] = field(default_factory=list)

    def add(self, plan: BuildPlan) -> None:
        """
        Adds the records that a plan leaves out.
        """
        self.repeated += plan.repeated
        self.gaps += plan.gaps
        self.refused += plan.refused

    def refuse(self, group: Group, reason: str) -> None:
        """
        Adds a whole group as refused.
        """
        offset, count = int(group.entries["offset"][0]), len(group.entries)
        self.refused.append(RefusedRecords(offset, count, reason))


class Group(NamedTuple):
    """
    The entries of one topic and queue, in log order, and their queue offsets.
    """

    topic: str
    queue_id: int
    indexes: NDArray[np.int64]
    entries: Entries

    @property
    def restart(self) -> int | None:
        """
        The place of the last record with queue offset 0: before it the queue ended. A
        topic that was deleted and made again begins anew, and so does its queue.
        """
        found = np.flatnonzero(self.indexes == 0)
        return int(found[-1]) if len(found) else None


@dataclass(slots=True)
class BuildPlan:
    """
    The entries to write for a group: runs of (queue offset, entries), ascending.
    """

    runs: list[tuple[int, Entries]] = field(default_factory=list)
    repeated: int = 0
    gaps: list[QueueGap] = field(default_factory=list)
    refused: list[RefusedRecords] = field(default_factory=list)


def groups_of(
    rows: NDArray[np.void], topic_name: Callable[[int], str], result: Dispatched
) -> Iterator[Group]:
    """
    Sorts rows into groups, without records that have no entry.

    Args:
        rows: of a scan, in log order.
        topic_name: returns the topic of a topic id.
        result: counts the records that are left out.
    """
    is_left_out = (rows["sys_flag"] & NO_ENTRY) != 0
    if is_left_out.any():
        result.transactions += int(is_left_out.sum())
        rows = rows[~is_left_out]
    is_inner = (rows["sys_flag"] & INNER_BATCH) != 0
    if is_inner.any():
        reason = "inner batches belong into a batch consume queue"
        first, count = int(rows["offset"][is_inner][0]), int(is_inner.sum())
        result.refused.append(RefusedRecords(first, count, reason))
        rows = rows[~is_inner]
    if not len(rows):
        return
    queue = rows["queue_id"].view(np.uint32).astype(np.uint64)
    key = rows["topic_id"].astype(np.uint64) << np.uint64(32) | queue
    entries = np.empty(len(rows), ENTRY_DTYPE)
    for name in ("offset", "size", "tags_code"):
        entries[name] = rows[name]
    indexes = rows["queue_offset"].astype(np.int64)
    # Rows are large, so what is needed of them is sorted.
    if (key[1:] < key[:-1]).any():
        order = np.argsort(key, kind="stable")
        key, indexes, entries = key[order], indexes[order], entries[order]
    starts = np.flatnonzero(np.diff(key, prepend=~key[:1]))
    topics = (key[starts] >> np.uint64(32)).tolist()
    queues = key[starts].astype(np.uint32).view(np.int32).tolist()
    edges = [*starts.tolist(), len(rows)]
    for at, (topic, queue_id) in enumerate(zip(topics, queues, strict=True)):
        start, end = edges[at], edges[at + 1]
        yield Group(topic_name(topic), queue_id, indexes[start:end], entries[start:end])


def plan_group(
    group: Group, *, next_index: int, end_offset: int, is_new: bool, gap_max: int
) -> BuildPlan:
    """
    Decides the entries of a group to write, and their queue offsets.

    The rules are RocketMQ's: a record that ends at or below the last record of the
    queue has its entry, a record with a queue offset below the end of the queue is
    skipped, and the first entry of a queue may have any queue offset.

    Args:
        group: its entries.
        next_index: the end of the queue.
        end_offset: the end of the last record of the queue, in the log.
        is_new: whether the queue has no files.
        gap_max: the largest number of missing entries in a row to fill; 0: none.

    Raises:
        CorruptError: entries are missing, and may not be filled.
    """
    plan = BuildPlan()
    indexes, entries = group.indexes, group.entries
    if int(entries["offset"][0]) < end_offset:
        is_known = entries["offset"] + entries["size"] <= end_offset
        plan.repeated = int(is_known.sum())
        indexes, entries = indexes[~is_known], entries[~is_known]
    edges = np.flatnonzero(np.diff(indexes) != 1) + 1
    for start, end in pairwise([0, *edges.tolist(), len(indexes)]):
        run = entries[start:end]
        index = int(indexes[start]) if len(run) else next_index
        passed = min(len(run), max(0, next_index - index))
        plan.repeated += passed
        index, run = index + passed, run[passed:]
        if not len(run):
            continue
        offset = int(run["offset"][0])
        missing = 0 if is_new else index - next_index
        if missing > 0 and not gap_max:
            raise _missing(group, next_index, index, offset)
        if missing > gap_max or index < 0 or index + len(run) > _INDEX_MAX:
            reason = f"queue offset {index} is impossible: the queue ends at "
            refusal = RefusedRecords(offset, len(run), f"{reason}{next_index}")
            plan.refused.append(refusal)
            continue
        if missing > 0:
            plan.gaps.append(QueueGap(group.topic, group.queue_id, next_index, missing))
        plan.runs.append((index, run))
        next_index, is_new = index + len(run), False
    return plan


def _missing(group: Group, expected: int, found: int, offset: int) -> CorruptError:
    return CorruptError(
        f"{group.topic}, queue {group.queue_id}: the record at offset {offset} has "
        f"queue offset {found}, but the queue ends at {expected}: dispatch from a "
        "lower offset, or move the queue's folder away to build it anew",
        offset=offset,
    )
