"""
Column types of Spark as types of Arrow.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from pystore.spark.plan.arrow_schema import ARROW_TYPES, arrow_schema
from pystore.spark.plan.schema import COLUMNS


def test_a_schema_of_spark_and_its_columns_give_the_same_schema_of_arrow() -> None:
    """
    Both forms keep the order of the columns.
    """
    expected = pa.schema([("offset", pa.int64()), ("text", pa.string())])

    assert expected == arrow_schema("offset bigint, text string")
    assert expected == arrow_schema({"offset": "bigint", "text": "string"})


def test_every_column_of_a_table_has_a_type_of_arrow() -> None:
    """
    A column of a new type needs a row in the table of types.
    """
    assert set() == {column.type for column in COLUMNS.values()} - set(ARROW_TYPES)


def test_an_unknown_type_is_an_error() -> None:
    """
    No column gets a guessed type.
    """
    with pytest.raises(KeyError):
        arrow_schema("offset decimal")
