"""
Spark's names of column types as types of Arrow. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

__all__ = ["ARROW_TYPES", "arrow_schema"]

ARROW_TYPES = {
    "array<int>": pa.list_(pa.int32()),
    "array<string>": pa.list_(pa.string()),
    "bigint": pa.int64(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "double": pa.float64(),
    "int": pa.int32(),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
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
