"""
Checks the queue offsets of a whole log, on the driver.

No queue offset may be missing or come twice, and every entry of the consume queues
must name a record. The input is the summary of each segment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from pystore.consumequeue.queue import ConsumeQueue, is_filler
from pystore.consumequeue.queues import ConsumeQueues
from pystore.spark.verify.queue_runs import QueueRun, QueueSummary
from pystore.spark.verify.verdicts import Finding

__all__ = ["check_entries", "check_offsets", "join_runs"]

_LIGHT = "%LMQ%"
_FINDINGS_MAX = 20
"""Findings of one queue that are listed one by one."""

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
    Returns a finding for each place where a queue's offsets do not rise by one.

    Args:
        runs: of each queue.
        unseen: ranges of the log that could not be read. Offsets that are missing
            across such a range are no finding.
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
            what = (
                f"{is_ - wanted} records are missing before it"
                if is_ > wanted
                else "an earlier record has this queue offset"
            )
            text = f"queue {queue_id} of {topic}: queue offset {is_}, not {wanted}"
            found.append(Finding("queueOffset", after.first_offset, f"{text}: {what}"))
        findings += found[:_FINDINGS_MAX]
    return findings


def _is_between(unseen: Ranges, offset: int, after: QueueRun) -> bool:
    return any(low < after.first_offset and high > offset for low, high in unseen)


def check_entries(
    queues: ConsumeQueues,
    runs: Mapping[Queue, Sequence[QueueRun]],
    wrong: Mapping[Queue, Sequence[int]],
    *,
    passed_over: Collection[Queue] = (),
    start: int,
    end: int,
    unseen: Ranges,
) -> list[Finding]:
    """
    Returns a finding for each entry that names no record of its queue.

    Args:
        queues: of the store, loaded.
        runs: of the records, by queue.
        wrong: queue offsets whose entry does not match the record.
        passed_over: queues whose runs are not all known.
        start: of the log.
        end: of the log; entries above it are not checked.
        unseen: ranges of the log that could not be read.
    """
    findings: list[Finding] = []
    for queue in queues:
        if queue.topic.startswith(_LIGHT):
            continue  # its entries name records of other topics
        key = queue.topic, queue.queue_id
        parts = [(index, index + 1) for index in wrong.get(key, ())]
        if key not in passed_over:
            parts += _uncovered(queue, runs.get(key, ()))
        found = []
        for first, above in sorted(parts):
            found += _bad(queue, first, above, (start, end), unseen)
            if len(found) > _FINDINGS_MAX:
                text = f"{queue.files.folder}: more entries of this queue are bad"
                found[_FINDINGS_MAX:] = [Finding("consumeQueue", None, text)]
                break
        findings += found
    return findings


def _uncovered(queue: ConsumeQueue, runs: Sequence[QueueRun]) -> list[tuple[int, int]]:
    """
    The slots ``[first, above)`` without a record in the log.
    """
    gaps, at = [], queue.first_slot
    for run in sorted(runs, key=lambda one: one.first_index):
        if run.first_index > at:
            gaps.append((at, min(run.first_index, queue.max_index)))
        at = max(at, run.last_index + 1)
    gaps.append((at, queue.max_index))
    return [(first, above) for first, above in gaps if first < above]


def _bad(
    queue: ConsumeQueue, first: int, above: int, log: tuple[int, int], unseen: Ranges
) -> list[Finding]:
    start, end = log
    entries = queue.entries(first, above - first)
    is_bad = ~is_filler(entries) & (entries["offset"] >= start)
    is_bad &= entries["offset"] + entries["size"] <= end
    for low, high in unseen:
        is_bad &= (entries["offset"] < low) | (entries["offset"] >= high)
    findings = []
    for slot in np.flatnonzero(is_bad)[: _FINDINGS_MAX + 1].tolist():
        offset, size, _ = entries[slot].item()
        text = (
            f"{queue.files.folder}: queue offset {first + slot} names {size} bytes at "
            f"offset {offset}, where its record is not: move the folder away; pystore "
            "builds it again"
        )
        findings.append(Finding("consumeQueue", offset, text))
    return findings
