"""
Runs of queue offsets, found in whole arrays: the same as one record at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import pystore.spark.verify.run_columns as module
from pystore.bindings.row import RECORD_DTYPE
from pystore.spark.verify.run_columns import RunColumns


def _rows(records: list[tuple[int, int, int, int]]) -> NDArray[Any]:
    """
    Rows of (topic id, queue id, queue offset, flags), 10 bytes apart.
    """
    rows = np.zeros(len(records), RECORD_DTYPE)
    for row, (topic, queue, index, flags) in zip(rows, records, strict=True):
        row["topic_id"], row["queue_id"] = topic, queue
        row["queue_offset"], row["sys_flag"] = index, flags
    return rows


def _slowly(records: list[tuple[int, int, int, int]]) -> list[tuple[int, ...]]:
    """
    What is expected, record by record.
    """
    runs: dict[tuple[int, int], list[list[int]]] = {}
    for number, (topic, queue, index, flags) in enumerate(records):
        if flags & 0x84:
            continue
        mine = runs.setdefault((topic, queue % 2**32), [])
        if mine and mine[-1][1] + 1 == index:
            mine[-1][1], mine[-1][3] = index, number * 10
            mine[-1][4] += 1
        else:
            mine.append([index, index, number * 10, number * 10, 1])
    return [
        (topic, queue - 2**32 if queue >= 2**31 else queue, *run)
        for topic, queue in sorted(runs)
        for run in runs[topic, queue]
    ]


def _random(seed: int) -> Iterator[tuple[int, int, int, int]]:
    random = np.random.default_rng(seed)
    next_index: dict[tuple[int, int], int] = {}
    for _ in range(3000):
        key = int(random.integers(3)), int(random.integers(-2, 3))
        index = next_index.get(key, 5)
        index += int(random.choice([0, 0, 0, 0, 0, 0, 0, 1, 7, -1]))
        next_index[key] = index + 1
        yield (*key, index, int(random.choice([0, 0, 0, 8, 4, 12, 0x80])))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("step", [1, 7, 500, 5000])
def test_runs_are_those_that_a_slow_reader_finds(
    seed: int, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    However the rows are cut into batches.
    """
    monkeypatch.setattr(module, "_MERGE_ROWS", 100)
    records = list(_random(seed))
    rows = _rows(records)
    rows["offset"] = np.arange(len(rows)) * 10
    runs = RunColumns()
    for at in range(0, len(rows), step):
        runs.note(rows[at : at + step])

    assert _slowly(records) == runs.merged().tolist(), f"seed {seed}"


def test_nothing_has_no_runs() -> None:
    """
    Nor has a batch of transactions that were rolled back.
    """
    runs = RunColumns()
    runs.note(_rows([(1, 1, 5, 12)]))

    assert [] == runs.merged().tolist()


def test_a_log_with_too_many_runs_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    So that what goes back to the driver stays small.
    """
    monkeypatch.setattr(module, "_MERGE_ROWS", 10)
    monkeypatch.setattr(module, "_ROWS_MAX", 50)
    runs = RunColumns()
    for start in range(0, 1000, 20):
        runs.note(_rows([(1, 1, index, 0) for index in range(start, start + 20, 2)]))

    assert runs.is_cut
    assert 100 > len(runs.merged())
