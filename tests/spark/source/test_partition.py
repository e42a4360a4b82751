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
from pystore.spark.plan.splits import plan_splits
from pystore.spark.source.partition import SplitPartition, read_partition


def test_a_partition_can_be_pickled_and_read(tmp_path: Path) -> None:
    """
    The partition that Spark makes of an empty table holds nothing.
    """
    root = make_store(tmp_path)
    options = SourceOptions((str(root),))
    columns = choose_columns(["offset"], with_body=False, with_damage=False)
    splits = plan_splits([root], options, Selection(), with_epochs=False)
    parts = [pickle.loads(pickle.dumps(SplitPartition(split))) for split in splits]

    found = [
        batch.num_rows
        for part in parts
        for batch in read_partition(part, columns, Selection(), options)
    ]

    assert 400 == sum(found)
    nothing = read_partition(InputPartition(None), columns, Selection(), options)
    assert [] == list(nothing)
