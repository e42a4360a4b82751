"""
A split as Spark sends it to a task, and what the task does with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from pystore.spark.columns import Column
from pystore.spark.options import SourceOptions
from pystore.spark.reading import read_split
from pystore.spark.selection import Selection
from pystore.spark.split import Split

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["SplitPartition", "read_partition"]


@dataclass
class SplitPartition(InputPartition):
    """
    A split, as Spark sends it to a task.
    """

    split: Split


def read_partition(
    partition: InputPartition,
    columns: Sequence[Column],
    selection: Selection,
    options: SourceOptions,
) -> Iterator[pa.RecordBatch]:
    """
    Returns the records of one partition.
    """
    if not isinstance(partition, SplitPartition):  # an empty table's only one
        return iter(())
    return read_split(
        partition.split,
        columns,
        selection,
        on_damage=options.on_damage,
        rows_per_batch=options.rows_per_batch,
        fail_on_data_loss=options.fail_on_data_loss,
    )
