"""
``pystore.spark.load``: the same table, but each row is copied once less.

Spark copies every row of a Python source into rows of its own (a projection above the
scan, Spark 4.3). It takes rows of ``mapInArrow`` as they are, so reading a whole log is
faster this way. The reads are planned when the table is loaded. Records that are
appended later are not in the table.
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

_ReadBatches = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


def load(session: SparkSession, *paths: str | Path, **options: object) -> DataFrame:
    """
    Returns the records of stores as a table.

    Args:
        session: of PySpark 4.1 or newer.
        paths: roots of stores, file URLs or globs.
        options: the batch options of ``format("pystore")``, by the same names.

    Raises:
        InvalidError: an option is unknown or invalid, or there is no path.
        NotAStoreError: a path is no store, or a glob matches no store.
    """
    given = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
    }
    if paths:
        given["paths"] = json.dumps([str(path) for path in paths])
    parsed = parse_options(given, is_stream=False)
    columns, rows = requested_columns(parsed), requested_rows(parsed)
    splits = plan_splits(
        find_stores(parsed.paths),
        parsed,
        rows,
        with_epochs="epochs" in needs_of(columns),
    )
    # Each task gets one number, the index of its split.
    numbers = session.range(0, len(splits), 1, max(1, len(splits)))
    return numbers.mapInArrow(_reader(splits, columns, rows, parsed), ddl(columns))


def _reader(
    splits: Sequence[Split],
    columns: Sequence[Column],
    rows: Selection,
    options: SourceOptions,
) -> _ReadBatches:
    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from read_partition(
                    SplitPartition(splits[number]), columns, rows, options
                )

    return read
