"""
``spark.read.format("pystore")``: commit logs as a table.

Spark sends only plain values to its workers: options, columns, splits. Files that the
driver opened stay on the driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

from pystore.errors import InvalidError
from pystore.spark.plan.arrow_schema import ARROW_TYPES
from pystore.spark.plan.options import SourceOptions, parse_options
from pystore.spark.plan.paths import find_stores
from pystore.spark.plan.requested import requested_columns, requested_rows
from pystore.spark.plan.schema import (
    Column,
    column_of,
    ddl,
    needs_of,
    without_nulls,
)
from pystore.spark.source.partition import pack_splits, read_partition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["PystoreSource"]


class PystoreSource(DataSource):
    """
    Stores as a table. Register it by `pystore.spark.register`.
    """

    @classmethod
    def name(cls) -> str:
        """
        The name for ``format``.
        """
        return "pystore"

    def schema(self) -> str:
        """
        The columns of a table without a schema of the user.
        """
        return ddl(requested_columns(parse_options(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        """
        The reader of a batch query.
        """
        options = parse_options(self.options, is_stream=False)
        return PystoreReader(options, _requested(schema, options))

    def streamReader(  # noqa: N802  Spark's name
        self, schema: StructType
    ) -> DataSourceStreamReader:
        """
        The reader of a streaming query.
        """
        # Imported here, because its base class is in PySpark 4.2 only.
        from pystore.spark.source.stream import PystoreStreamReader  # noqa: PLC0415

        options = parse_options(self.options, is_stream=True)
        return PystoreStreamReader(options, _requested(schema, options))


class PystoreReader(DataSourceReader):
    """
    Plans on the driver, reads on the workers.
    """

    def __init__(self, options: SourceOptions, columns: Sequence[Column]) -> None:
        self._options = options
        self._columns = tuple(columns)
        self._selection = requested_rows(options)

    def partitions(self) -> Sequence[InputPartition]:
        """
        The partitions: one or several for each segment that may hold a wanted record.
        """
        # Only the driver needs the wheel; workers may have Python files only.
        from pystore.spark.plan.splits import plan_splits  # noqa: PLC0415

        splits = plan_splits(
            find_stores(self._options.paths),
            self._options,
            self._selection,
            with_epochs="epochs" in needs_of(self._columns),
        )
        return pack_splits(splits)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """
        The records of one partition.
        """
        return read_partition(partition, self._columns, self._selection, self._options)


def _requested(schema: StructType, options: SourceOptions) -> tuple[Column, ...]:
    """
    The columns of a schema, which may be the user's. Names have any case.

    Raises:
        InvalidError: a column has another type, comes twice, or is NOT NULL although
            it can be null.
    """
    columns = without_nulls(
        [column_of(one.name, one.dataType.simpleString()) for one in schema.fields],
        with_damage=options.on_damage == "report",
    )
    names = [column.name for column in columns]
    for column, field in zip(columns, schema.fields, strict=True):
        given = field.dataType.simpleString()
        if names.count(column.name) > 1:
            raise InvalidError(f"column {column.name!r} is requested twice")
        if column.type not in ARROW_TYPES:
            raise InvalidError(
                f"column {column.name!r} is unknown, and nulls of type {given} are not "
                f"supported: use one of {', '.join(ARROW_TYPES)}"
            )
        if given != column.type:
            raise InvalidError(
                f"column {column.name!r} is {column.type}, not {given}: "
                "use that type in the schema, and cast the column afterwards"
            )
        if column.is_nullable and not field.nullable:
            raise InvalidError(
                f"column {column.name!r} can be null: remove NOT NULL from the schema"
            )
    return tuple(
        replace(column, is_nullable=field.nullable)
        for column, field in zip(columns, schema.fields, strict=True)
    )
