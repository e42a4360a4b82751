"""
Spark's names of column types as types of Arrow. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pystore.spark.plan.schema import Column

__all__ = ["ARROW_TYPES", "arrow_schema", "schema_of"]

ARROW_TYPES = {
    "array<bigint>": pa.list_(pa.int64()),
    "array<int>": pa.list_(pa.int32()),
    "array<string>": pa.list_(pa.string()),
    "bigint": pa.int64(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "double": pa.float64(),
    "float": pa.float32(),
    "int": pa.int32(),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
    "smallint": pa.int16(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
    "tinyint": pa.int8(),
}
"""The type of Arrow for each of Spark's."""


def arrow_schema(columns: Mapping[str, str] | str) -> pa.Schema:
    """
    Returns the schema of Arrow for columns of Spark.

    Args:
        columns: type by name, or a schema as Spark takes it: ``a int, b string``.
    """
    if isinstance(columns, str):
        columns = dict(column.split() for column in columns.split(", "))
    return pa.schema([(name, ARROW_TYPES[kind]) for name, kind in columns.items()])


def schema_of(columns: Iterable[Column]) -> pa.Schema:
    """
    Returns the schema of Arrow for columns of the source.
    """
    fields = [
        pa.field(one.name, ARROW_TYPES[one.type], one.is_nullable) for one in columns
    ]
    return pa.schema(fields)
