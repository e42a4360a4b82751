"""
Splits as a partition of Spark, and the task that reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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

__all__ = ["SplitPartition", "pack_splits", "read_partition"]

_PACKED_BYTES = 128 << 20
_PARTITIONS_LEAST = 64


@dataclass
class SplitPartition(InputPartition):
    """
    Splits, as Spark sends them to a task.
    """

    splits: tuple[Split, ...]


def pack_splits(splits: Iterable[Split]) -> list[SplitPartition]:
    """
    Returns partitions of neighbouring splits.

    A task costs Spark more than a small segment. So splits are packed up to 128 MiB,
    but into no fewer than 64 partitions.
    """
    given = list(splits)
    total = sum(split.to_offset - split.from_offset for split in given)
    target = min(_PACKED_BYTES, -(-total // _PARTITIONS_LEAST))
    packed: list[list[Split]] = []
    size = 0
    for split in given:
        more = split.to_offset - split.from_offset
        if not packed or len(given) <= _PARTITIONS_LEAST or size + more > target:
            packed.append([])
            size = 0
        packed[-1].append(split)
        size += more
    return [SplitPartition(tuple(some)) for some in packed]


def read_partition(
    partition: InputPartition,
    columns: Sequence[Column],
    selection: Selection,
    options: SourceOptions,
) -> Iterator[pa.RecordBatch]:
    """
    Yields the records of one partition.
    """
    if not isinstance(
        partition, SplitPartition
    ):  # the only partition of an empty table
        return
    names = [column.alias or column.name for column in columns]
    has_aliases = any(column.alias for column in columns)
    for split in partition.splits:
        for batch in read_split(
            split,
            columns,
            selection,
            on_damage=options.on_damage,
            rows_per_batch=options.rows_per_batch,
            fail_on_data_loss=options.fail_on_data_loss,
        ):
            yield batch.rename_columns(names) if has_aliases else batch
