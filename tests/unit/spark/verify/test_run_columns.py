"""
Runs of queue offsets in whole arrays equal those of one record at a time.
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
    The expected runs, found record by record.
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
    The rows may be cut into batches anywhere.
    """
    monkeypatch.setattr(module, "_MERGE_ROWS", 100)
    records = list(_random(seed))
    rows = _rows(records)
    rows["offset"] = np.arange(len(rows)) * 10
    runs = RunColumns()
    for at in range(0, len(rows), step):
        runs.note(rows[at : at + step])

    assert _slowly(records) == runs.merged().tolist(), f"seed {seed}"


def test_no_rows_have_no_runs() -> None:
    """
    A batch of rolled back transactions has none either.
    """
    runs = RunColumns()
    runs.note(_rows([(1, 1, 5, 12)]))

    assert [] == runs.merged().tolist()


def test_the_number_of_runs_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    So the result for the driver stays small.
    """
    monkeypatch.setattr(module, "_MERGE_ROWS", 10)
    monkeypatch.setattr(module, "_ROWS_MAX", 50)
    runs = RunColumns()
    for start in range(0, 1000, 20):
        runs.note(_rows([(1, 1, index, 0) for index in range(start, start + 20, 2)]))

    assert runs.is_cut
    assert 100 > len(runs.merged())
