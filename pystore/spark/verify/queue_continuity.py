"""
Looks at the queue offsets of a whole log, on the driver, and finds the entries of the
consume queues that no record matched. The input is the summary of each segment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from pystore.consumequeue.queue import ConsumeQueue
from pystore.spark.verify.queue_runs import QueueRun, QueueSummary
from pystore.spark.verify.verdicts import Finding
from pystore.verify.entries import SlotMarks

__all__ = ["check_offsets", "join_runs", "mark_slots", "set_end"]

_FINDINGS_MAX = 20
"""Notes on one queue that are listed one by one."""
_PIECE = 1 << 20
"""Entries of a queue in memory at once."""

Ranges = Sequence[tuple[int, int]]
Queue = tuple[str, int]


def join_runs(
    segments: Iterable[Sequence[QueueSummary]],
) -> dict[Queue, list[QueueRun]]:
    """
    Returns the runs of every queue in log order.

    Args:
        segments: summaries of the queues in each segment, segments ascending.
    """
    runs: dict[Queue, list[QueueRun]] = defaultdict(list)
    for summaries in segments:
        for summary in summaries:
            runs[summary.topic, summary.queue_id] += summary.runs
    return runs


def check_offsets(
    runs: Mapping[Queue, Sequence[QueueRun]], unseen: Ranges
) -> list[Finding]:
    """
    Returns a note for each place where a queue's offsets do not rise by one.

    It is no damage by itself: a topic that was deleted and made again begins at 0, and
    compaction, fillers and salvage leave gaps. But a record may have changed in the
    range of the note, from the record before the place to the one behind it.

    Args:
        runs: of each queue.
        unseen: ranges of the log that could not be read. Offsets that are missing
            across such a range are no note.
    """
    findings: list[Finding] = []
    for (topic, queue_id), parts in runs.items():
        found = []
        for before, after in pairwise(parts):
            wanted, is_ = before.last_index + 1, after.first_index
            if is_ == wanted:
                continue
            if is_ > wanted and _is_between(unseen, before.last_offset, after):
                continue
            what = f"{is_ - wanted} records are missing before it"
            if is_ < wanted:
                what = "an earlier record has this queue offset"
            if is_ == 0:
                what = "the topic was made again"
            text = (
                f"queue {queue_id} of {topic}: queue offset {is_}, not {wanted}, at "
                f"{after.first_offset}: {what}"
            )
            size = after.first_offset - before.last_offset + 1
            found.append(Finding("queueOffset", before.last_offset, text, size))
        findings += found[:_FINDINGS_MAX]
    return findings


def _is_between(unseen: Ranges, offset: int, after: QueueRun) -> bool:
    return any(low < after.first_offset and high > offset for low, high in unseen)


def set_end(queue: ConsumeQueue, right: Iterable[tuple[int, int]], end: int) -> None:
    """
    Ends a queue that was loaded by bisection at its first slot without an entry.

    Args:
        queue: of the store, loaded.
        right: queue offsets ``[first, above)`` whose entry matches a record.
        end: as in `mark_slots`.
    """
    for first, above in _gaps(right, queue.first_slot, min(end, queue.max_index)):
        for start in range(first, above, _PIECE):
            entries = queue.entries(start, min(_PIECE, above - start))
            is_entry = (entries["offset"] >= 0) & (entries["size"] > 0)
            if not is_entry.all():
                queue.max_index = start + int(is_entry.argmin())
                return


def _gaps(
    right: Iterable[tuple[int, int]], first_slot: int, end: int
) -> Iterator[tuple[int, int]]:
    """
    The slots between ranges, ``[first, above)`` ascending; last those behind them all.
    """
    at = first_slot
    for first, above in sorted(right):
        if at < first < end:
            yield at, first
        elif at < end <= first:
            break
        at = max(at, min(above, end))
    yield at, end


def mark_slots(
    queue: ConsumeQueue,
    runs: Sequence[QueueRun],
    right: Iterable[tuple[int, int]],
    end: int,
) -> Iterator[SlotMarks]:
    """
    Returns the entries of a queue that no record matched.

    Args:
        queue: of the store, loaded.
        runs: of its records.
        right: queue offsets ``[first, above)`` whose entry matches a record.
        end: of the entries that the records were compared with.
    """
    gaps = list(_gaps(right, queue.first_slot, min(end, queue.max_index)))
    last = gaps[-1][0] - 1
    for first, above in gaps:
        for start in range(first, above, _PIECE):
            entries = queue.entries(start, min(_PIECE, above - start))
            slots = np.arange(start, start + len(entries))
            named = np.zeros(len(entries), np.bool_)
            for run in runs:
                low, high = run.first_index - start, run.last_index + 1 - start
                named[max(0, low) : max(0, high)] = True
            matched = np.zeros(len(entries), np.bool_)
            yield SlotMarks(start, entries, matched, named, slots < last)
