"""
``pystore.spark.load``: the same table, but each row is copied once less; and
``pystore.spark.map_batches``: work on the rows where they are read.

Spark copies every row of a Python source into rows of its own (a projection above the
scan, Spark 4.3). It takes rows of ``mapInArrow`` as they are, so reading a whole log is
faster this way. A function on the batches of a table makes Arrow of these rows again;
in the task that reads them it has the batches as they are. The reads are planned when
the table is loaded. Records that are appended later are not in the table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pystore.spark.plan.options import SourceOptions, parse_options
from pystore.spark.plan.paths import find_stores
from pystore.spark.plan.requested import requested_columns, requested_rows
from pystore.spark.plan.schema import Column, ddl, needs_of
from pystore.spark.plan.selection import Selection
from pystore.spark.plan.splits import plan_splits
from pystore.spark.source.partition import SplitPartition, pack_splits, read_partition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["load", "map_batches"]

BatchFunction = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]
"""Makes record batches of record batches."""


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
    parsed = _parsed(paths, options)
    columns = requested_columns(parsed)
    numbers, read = _planned(session, parsed, columns)
    return numbers.mapInArrow(read, ddl(columns))


def map_batches(
    session: SparkSession,
    paths: str | Path | Sequence[str | Path],
    function: BatchFunction,
    schema: str | StructType,
    **options: object,
) -> DataFrame:
    """
    Returns the result of a function on the record batches of stores.

    Args:
        session: of PySpark 4.1 or newer.
        paths: of stores: one or several, as for `load`.
        function: as for ``DataFrame.mapInArrow``: called once in each task with an
            iterator over its batches, it returns an iterator over batches of *schema*.
        schema: of the result.
        options: the batch options of ``format("pystore")``, by the same names.

    Raises:
        InvalidError: an option is unknown or invalid, or there is no path.
        NotAStoreError: a path is no store, or a glob matches no store.
    """
    several = [paths] if isinstance(paths, str | Path) else paths
    parsed = _parsed(several, options)
    numbers, read = _planned(session, parsed, requested_columns(parsed))
    return numbers.mapInArrow(lambda some: function(read(some)), schema)


def _parsed(
    paths: Sequence[str | Path], options: Mapping[str, object]
) -> SourceOptions:
    given = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
    }
    if paths:
        given["paths"] = json.dumps([str(path) for path in paths])
    return parse_options(given, is_stream=False)


def _planned(
    session: SparkSession, parsed: SourceOptions, columns: Sequence[Column]
) -> tuple[DataFrame, BatchFunction]:
    """
    A table with a number for each task, and the function that reads their records.
    """
    rows = requested_rows(parsed)
    splits = plan_splits(
        find_stores(parsed.paths),
        parsed,
        rows,
        with_epochs="epochs" in needs_of(columns),
    )
    parts = pack_splits(splits)
    # Each task gets one number, the index of its partition.
    numbers = session.range(0, len(parts), 1, max(1, len(parts)))
    return numbers, _reader(parts, columns, rows, parsed)


def _reader(
    parts: Sequence[SplitPartition],
    columns: Sequence[Column],
    rows: Selection,
    options: SourceOptions,
) -> BatchFunction:
    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from read_partition(parts[number], columns, rows, options)

    return read
