"""
A split as a partition of Spark, and the task that reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from pystore.spark.plan.options import SourceOptions
from pystore.spark.plan.schema import Column
from pystore.spark.plan.selection import Selection
from pystore.spark.plan.split import Split
from pystore.spark.scan.task import read_split

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
    if not isinstance(
        partition, SplitPartition
    ):  # the only partition of an empty table
        return iter(())
    return read_split(
        partition.split,
        columns,
        selection,
        on_damage=options.on_damage,
        rows_per_batch=options.rows_per_batch,
        fail_on_data_loss=options.fail_on_data_loss,
    )
