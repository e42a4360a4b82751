"""
A partition, which travels to a task, and its records.
"""

from __future__ import annotations

import pickle
from pathlib import Path

from lib.spark.reading import make_store
from pyspark.sql.datasource import InputPartition

from pystore.spark.plan.options import SourceOptions
from pystore.spark.plan.schema import choose_columns
from pystore.spark.plan.selection import Selection
from pystore.spark.plan.split import Split
from pystore.spark.plan.splits import plan_splits
from pystore.spark.source.partition import pack_splits, read_partition


def test_a_partition_can_be_pickled_and_read(tmp_path: Path) -> None:
    """
    The partition that Spark makes of an empty table holds nothing.
    """
    root = make_store(tmp_path)
    options = SourceOptions((str(root),))
    columns = choose_columns(["offset"], with_body=False, with_damage=False)
    splits = plan_splits([root], options, Selection(), with_epochs=False)
    parts = [pickle.loads(pickle.dumps(part)) for part in pack_splits(splits)]

    found = [
        batch.num_rows
        for part in parts
        for batch in read_partition(part, columns, Selection(), options)
    ]

    assert 400 == sum(found)
    nothing = read_partition(InputPartition(None), columns, Selection(), options)
    assert [] == list(nothing)


def test_small_segments_are_packed_and_large_ones_are_not() -> None:
    """
    Few segments are never packed, so that all processors have work.
    """

    def parts(count: int, size: int) -> list[int]:
        splits = [
            Split("/a", at * size, size, at * size, (at + 1) * size, count * size)
            for at in range(count)
        ]
        packed = pack_splits(splits)
        assert splits == [split for part in packed for split in part.splits]
        return [len(part.splits) for part in packed]

    assert 64 * [1] == parts(64, 1 << 20)
    assert 67 * [15] + [3] == parts(1008, 1 << 20)
    assert 10 * [1] == parts(10, 1 << 30)
    assert 100 * [1] == parts(100, 1 << 30)
    assert 78 * [128] + [16] == parts(10_000, 1 << 20)


def test_a_plan_of_many_segments_is_small() -> None:
    """
    It travels to the executors.
    """
    size = 1 << 30
    splits = [
        Split("/brokers/a/store", at * size, size, at * size, (at + 1) * size, 1 << 44)
        for at in range(10_000)
    ]

    assert len(pickle.dumps(pack_splits(splits))) < 200 * 10_000
