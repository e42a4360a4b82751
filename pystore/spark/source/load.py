"""
``pystore.spark.load``: the same table with one copy of each row less.

Spark copies every row that a Python source yields once more, into rows of its own
(a projection above the scan, Spark 4.3); rows out of ``mapInArrow`` it takes as they
are. So whoever wants all of a log has it sooner this way. The stores are planned when
the table is loaded: it stays what they held then.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pystore.spark.plan.options import SourceOptions, parse_options
from pystore.spark.plan.paths import find_stores
from pystore.spark.plan.schema import Column, ddl, needs_of
from pystore.spark.plan.selection import Selection
from pystore.spark.plan.split import Split
from pystore.spark.plan.splits import plan_splits, requested_columns, requested_rows
from pystore.spark.source.partition import SplitPartition, read_partition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["load"]

_Give = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


def load(session: SparkSession, *paths: str | Path, **options: object) -> DataFrame:
    """
    Returns the records of stores as a table.

    Args:
        session: of PySpark 4.1 or newer.
        paths: roots of stores, file URLs or globs.
        options: those of ``format("pystore")`` for a batch, by the same names.

    Raises:
        InvalidError: an option that is unknown or means nothing, or no path.
        NotAStoreError: a path matches nothing, or no store.
    """
    given = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
    }
    if paths:
        given["paths"] = json.dumps([str(path) for path in paths])
    asked = parse_options(given, is_stream=False)
    columns, rows = requested_columns(asked), requested_rows(asked)
    splits = plan_splits(
        find_stores(asked.paths), asked, rows, with_epochs="epochs" in needs_of(columns)
    )
    # One number to each task, and its split by that.
    numbers = session.range(0, len(splits), 1, max(1, len(splits)))
    return numbers.mapInArrow(_reading(splits, columns, rows, asked), ddl(columns))


def _reading(
    splits: Sequence[Split],
    columns: Sequence[Column],
    rows: Selection,
    options: SourceOptions,
) -> _Give:
    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from read_partition(
                    SplitPartition(splits[number]), columns, rows, options
                )

    return read
