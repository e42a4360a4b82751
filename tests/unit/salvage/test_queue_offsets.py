"""
Queue offsets are told apart by runs.
"""

from __future__ import annotations

import random

import numpy as np

from pystore.salvage.queue_offsets import OffsetRuns, possible


def test_any_order_of_queue_offsets_equals_a_set() -> None:
    """
    New is what was not there, and the runs are what is there.
    """
    for seed in range(200):
        draw = random.Random(seed)
        runs, known = OffsetRuns(), set[int]()
        for _ in range(draw.randrange(1, 8)):
            start = draw.randrange(60)
            indexes = list(range(start, start + draw.randrange(1, 12)))
            if draw.random() < 0.3:
                draw.shuffle(indexes)
            expected = [
                not (index in known or known.add(index))  # type: ignore[func-returns-value]
                for index in indexes
            ]
            found = runs.add(np.array(indexes, np.int64))
            assert expected == found.tolist(), f"seed {seed}"
        there = [index for start, end in runs.runs for index in range(start, end)]
        assert sorted(known) == there, f"seed {seed}"
        gaps = zip(runs.runs, runs.runs[1:], strict=False)
        assert all(before[1] < after[0] for before, after in gaps), f"seed {seed}"


def test_a_number_far_away_is_not_of_the_queue() -> None:
    """
    The runs with most records are, with the gaps that lost records may leave.
    """
    runs = OffsetRuns()
    runs.add(np.array([*range(10), *range(30, 33), 2**40, 5000], np.int64))

    assert (0, 33) == runs.main_range(20)
    assert (0, 10) == runs.main_range(19)
    assert (0, 5001) == runs.main_range(4967)
    assert (0, 0) == OffsetRuns().main_range(1)


def test_a_topic_that_was_made_anew_keeps_both_of_its_ranges() -> None:
    """
    As far as fillers can bridge the gap.
    """
    runs, low = OffsetRuns(), 1_000_000
    runs.add(np.arange(low, low + 20, dtype=np.int64))
    runs.add(np.arange(10, dtype=np.int64))
    runs.add(np.array([500_000], np.int64))
    runs.add(np.arange(2**30, 2**30 + 10, dtype=np.int64))

    assert (0, low + 20) == runs.main_range(9)


def test_a_queue_offset_without_a_place_is_impossible() -> None:
    """
    Its entry would lie beyond the largest position of a file.
    """
    indexes = np.array([-1, 0, 2**63 // 20 - 3, 2**62], np.int64)

    assert [False, True, True, False] == possible(indexes).tolist()
