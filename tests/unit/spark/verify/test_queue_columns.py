"""
The queues of a store's segments, joined as columns.
"""

from __future__ import annotations

import pickle
import random
import tracemalloc
from dataclasses import replace

import pytest

from pystore.spark.verify import queue_columns
from pystore.spark.verify.queue_columns import StoreQueues, pack_queues
from pystore.spark.verify.queue_runs import QueueRun, QueueSummary
from pystore.verify.entries import LostEntries


def joined(*segments: list[QueueSummary]) -> list[QueueSummary]:
    """
    The queues of a store, as the driver gets them from its tasks.
    """
    store = StoreQueues()
    for one in segments:
        store.add(pickle.loads(pickle.dumps(pack_queues(one))))
    return store.summaries()


def summary(
    first: int, above: int, at: int, *, is_right: bool = True, topic: str = "T"
) -> QueueSummary:
    """
    A queue of one segment, with one run of records of 100 bytes.
    """
    run = QueueRun(first, above - 1, at, at + (above - first - 1) * 100)
    right = [(first, above)] if is_right else []
    return QueueSummary(topic, 0, [run], right=right)


def test_runs_that_go_on_in_the_next_segment_are_one() -> None:
    """
    Also across a segment without a record of the queue.
    """
    (found,) = joined([summary(0, 5, 0)], [], [summary(5, 9, 1000)])

    assert [QueueRun(0, 8, 0, 1300)] == found.runs
    assert [(0, 9)] == found.right


@pytest.mark.parametrize("first", [4, 6, 0])
def test_a_run_that_does_not_go_on_is_another(first: int) -> None:
    """
    A gap, a repetition, a topic that was made again.
    """
    (found,) = joined([summary(0, 5, 0)], [summary(first, first + 2, 1000)])

    assert [(0, 4), (first, first + 1)] == [
        (one.first_index, one.last_index) for one in found.runs
    ]
    assert [(0, 5), (first, first + 2)] == found.right


def test_what_is_wrong_in_one_segment_stays() -> None:
    """
    Wrong entries, lost entries, too many runs.
    """
    lost = LostEntries(2, 5, [1000, 1100])
    odd = replace(summary(5, 9, 1000), right=[(7, 9)], lost=lost, is_cut=True)
    (found,) = joined([summary(0, 5, 0)], [odd], [summary(9, 12, 2000)])

    assert sorted([(0, 5), (7, 9), (9, 12)]) == sorted(found.right)
    assert [(0, 4), (5, 8), (9, 11)] == [
        (one.first_index, one.last_index) for one in found.runs
    ]
    assert (lost, True) == (found.lost, found.is_cut)


def test_topics_may_differ_between_segments() -> None:
    """
    Each segment has its own list of them.
    """
    found = joined(
        [summary(0, 5, 0, topic="B")],
        [summary(0, 2, 1000, topic="A"), summary(5, 6, 1500, topic="B")],
    )

    assert {("A", (0, 1)), ("B", (0, 5))} == {
        (one.topic, (run.first_index, run.last_index))
        for one in found
        for run in one.runs
    }


def test_joining_loses_nothing() -> None:
    """
    Random queues: slots with a record, and slots with a right entry.
    """
    seed = random.randrange(2**32)
    print("seed", seed)
    choice = random.Random(seed)
    segments, wanted = [], {}
    nexts: dict[int, int] = {}
    for number in range(60):
        parts = []
        for queue_id in choice.sample(range(9), 5):
            first = nexts.get(queue_id, 0) + choice.choice((0, 0, 0, 3))
            above = nexts[queue_id] = first + choice.randrange(1, 5)
            one = summary(first, above, number * 1000, is_right=choice.random() < 0.8)
            one.queue_id = queue_id
            parts.append(one)
            for slot in range(first, above):
                wanted[queue_id, slot] = bool(one.right)
        segments.append(parts)

    found = {
        (one.queue_id, slot): any(low <= slot < high for low, high in one.right)
        for one in joined(*segments)
        for run in one.runs
        for slot in range(run.first_index, run.last_index + 1)
    }

    assert wanted == found


def test_the_driver_holds_as_much_as_there_are_queues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    10,000 segments of 10,000 queues have 10^8 runs. Here are fewer, and the rows that
    the driver keeps do not grow with the segments.
    """
    monkeypatch.setattr(queue_columns, "_JOIN_ROWS", 1000)
    queues, rows = 500, 41
    store = StoreQueues()
    tracemalloc.start()
    try:
        for number in range(400):
            parts = []
            for queue_id in range(queues):
                one = summary(number, number + 1, number * 100_000 + queue_id * 100)
                one.queue_id = queue_id
                parts.append(one)
            packed = pickle.dumps(pack_queues(parts))
            assert len(packed) < queues * rows + 1000
            del parts
            store.add(pickle.loads(packed))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert queues == len(store.summaries())
    assert most < 400 * queues * rows / 4
