"""
Queue offsets over a whole log.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pystore.consumequeue.queues import ConsumeQueues, queue_file_size_of
from pystore.message.message import Message
from pystore.spark.verify.queue_continuity import (
    check_offsets,
    join_runs,
    mark_slots,
)
from pystore.spark.verify.queue_runs import QueueRun, QueueSummary
from pystore.store.store import Store

QUEUE = ("T", 0)
RECORD = 100
"""Bytes of each record here; the record of queue offset n begins at 100 n."""


def run(first: int, last: int, offset: int | None = None) -> QueueRun:
    """
    A run of records, in a log without other queues.
    """
    start = first * RECORD if offset is None else offset
    return QueueRun(first, last, start, start + (last - first) * RECORD)


def test_the_runs_of_segments_are_joined_by_queue() -> None:
    """
    The runs stay in the order of the log.
    """
    segments = [
        [QueueSummary("A", 0, [run(0, 1)]), QueueSummary("B", 0, [run(7, 7)])],
        [],
        [QueueSummary("A", 0, [run(2, 3)]), QueueSummary("A", 1, [run(0, 0)])],
    ]

    assert {
        ("A", 0): [run(0, 1), run(2, 3)],
        ("B", 0): [run(7, 7)],
        ("A", 1): [run(0, 0)],
    } == join_runs(segments)


def test_a_queue_that_rises_by_one_over_segments_has_no_finding() -> None:
    """
    It may begin above 0: older records were deleted.
    """
    assert [] == check_offsets({QUEUE: [run(70, 80), run(81, 90), run(91, 91)]}, [])


def test_missing_records_are_counted() -> None:
    """
    The range of the note has them: it ends where the next record begins.
    """
    (found,) = check_offsets({QUEUE: [run(0, 4), run(8, 9)]}, [])

    assert ("queueOffset", 400, 401) == (found.kind, found.offset, found.size)
    assert (
        "queue 0 of T: queue offset 8, not 5, at 800: 3 records are missing before it"
        == found.text
    )


@pytest.mark.parametrize(
    ("first", "why"),
    [(4, "an earlier record has this queue offset"), (0, "the topic was made again")],
)
def test_a_queue_offset_that_comes_twice_is_found(first: int, why: str) -> None:
    """
    Two masters gave it, the log was joined from two logs, or it begins anew.
    """
    (found,) = check_offsets({QUEUE: [run(0, 4), run(first, 9, 5000)]}, [])

    assert (400, 4601) == (found.offset, found.size)
    assert f"queue offset {first}, not 5, at 5000: {why}" in found.text


def test_missing_records_across_damage_are_no_finding() -> None:
    """
    The damage is a finding, and may hold these records.
    """
    runs = {QUEUE: [run(0, 4), run(8, 9)]}

    assert [] == check_offsets(runs, [(500, 800)])
    assert [] == check_offsets(runs, [(450, 460)])
    assert 1 == len(check_offsets(runs, [(0, 400), (800, 900)]))


def test_a_repetition_across_damage_is_found() -> None:
    """
    The damage cannot explain it.
    """
    runs = {QUEUE: [run(0, 4), run(3, 9, 5000)]}

    assert 1 == len(check_offsets(runs, [(0, 10_000)]))


def test_every_queue_is_checked_by_itself() -> None:
    """
    This holds even if another queue is broken.
    """
    good, bad = [run(0, 9)], [run(0, 1), run(5, 6)]
    found = check_offsets({("A", 0): good, ("B", 0): bad, ("B", 1): bad}, [])

    assert ["queue 0 of B", "queue 1 of B"] == [one.text[:12] for one in found]


def test_the_findings_of_one_queue_are_limited() -> None:
    """
    A broken queue does not hide another one.
    """
    bad = [run(index, index) for index in range(0, 200, 2)]
    found = check_offsets({("A", 0): bad, ("B", 0): bad[:2]}, [])

    assert 20 == sum("of A" in one.text for one in found)
    assert 1 == sum("of B" in one.text for one in found)


def test_entries_that_no_record_matched_are_marked(tmp_path: Path) -> None:
    """
    Each with whether a record names it, and whether a matched one follows.
    """
    with Store(tmp_path / "a", segment_size=65536) as store:
        for _ in range(10):
            store.log.append(Message("T", b"x"))
    with ConsumeQueues(tmp_path / "a", queue_file_size_of(tmp_path / "a")) as queues:
        queues.load()
        (queue,) = queues
        marks = list(
            mark_slots(queue, [run(0, 4), run(6, 9)], [(0, 3), (4, 5), (6, 8)], 10)
        )

    slots = [
        (part.first + at, bool(part.named[at]), bool(part.is_below[at]))
        for part in marks
        for at in range(len(part.entries))
    ]
    assert [(3, True, True), (5, False, True), (8, True, False), (9, True, False)] == (
        slots
    )
    assert not any(part.matched.any() for part in marks)


def test_entries_that_came_after_the_tasks_are_not_marked(tmp_path: Path) -> None:
    """
    No task compared a record with them.
    """
    with Store(tmp_path / "a", segment_size=65536) as store:
        for _ in range(10):
            store.log.append(Message("T", b"x"))
    with ConsumeQueues(tmp_path / "a", queue_file_size_of(tmp_path / "a")) as queues:
        queues.load()
        (queue,) = queues
        marks = list(mark_slots(queue, [run(0, 9)], [(0, 3)], 5))

    assert [(3, 2)] == [(part.first, len(part.entries)) for part in marks]
