"""
What travels to a task, and what it makes of it.
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


def test_a_partition_travels_and_is_read(tmp_path: Path) -> None:
    """
    An empty table's only one, which Spark makes, holds nothing.
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
