"""
``pystore.spark.load``: the same table as ``format("pystore")``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lib.oracle.golden_data import STORES
from lib.store.logs import make_root, open_log
from pyspark.sql import SparkSession

from pystore.errors import InvalidError, NotAStoreError
from pystore.message.message import Message
from pystore.spark import load, map_batches
from pystore.store.store import Store


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """
    A store of 300 records in several segments.
    """
    root = make_root(tmp_path)
    with open_log(root) as log:
        for number in range(300):
            message = Message(f"T{number % 3}", bytes(number * 5), queue_id=number % 4)
            log.append(message.form)
    return root


def _sorted(frame: Any) -> list[Any]:
    rows: list[Any] = frame.orderBy("store", "offset").collect()
    return rows


def test_a_loaded_store_of_java_has_the_rows_of_the_format(
    session: SparkSession, tmp_path: Path
) -> None:
    """
    Every column of every record, and the same schema.
    """
    golden_store = STORES[0]
    root = golden_store.extract(tmp_path)
    reader = session.read.format("pystore").option("includeBody", "true")
    same = reader.load(str(root))

    table = load(session, root, includeBody=True)

    assert same.schema.simpleString() == table.schema.simpleString()
    assert _sorted(same) == _sorted(table)
    assert len(golden_store.records) == table.count()


@pytest.mark.parametrize(
    "options",
    [
        {"topics": "T1", "splitBytes": 4096, "rowsPerBatch": 7},
        {"fromOffset": 5000, "toOffset": 90000},
        {"onDamage": "report"},
    ],
    ids=["topics", "offsets", "damage"],
)
def test_options_have_the_same_meaning_as_in_the_format(
    session: SparkSession, root: Path, options: dict[str, Any]
) -> None:
    """
    Rows and tasks are equal: both plan the same splits.
    """
    same = session.read.format("pystore").options(**options).load(str(root))

    table = load(session, root, **options)

    assert _sorted(same) == _sorted(table)
    assert same.rdd.getNumPartitions() == table.rdd.getNumPartitions()


def test_a_loaded_table_keeps_the_records_of_its_load(
    session: SparkSession, tmp_path: Path
) -> None:
    """
    The reads are planned when it is loaded.
    """
    with Store(tmp_path / "store") as store:
        store.log.append(Message("T", b"there"))
    table = load(session, tmp_path / "store", columns="offset")
    with Store(tmp_path / "store") as store:
        store.log.append(Message("T", b"later"))

    assert 1 == table.count()
    assert 2 == load(session, tmp_path / "store", columns="offset").count()


def test_an_empty_store_is_an_empty_loaded_table(
    session: SparkSession, tmp_path: Path
) -> None:
    """
    It has the same columns.
    """
    root = make_root(tmp_path)
    with open_log(root):
        pass

    table = load(session, root, columns="topic,offset")

    assert ["topic", "offset"] == table.columns
    assert [] == table.collect()


def test_invalid_arguments_of_load_are_errors_at_once(
    session: SparkSession, root: Path, tmp_path: Path
) -> None:
    """
    Not only when the first row is read.
    """
    with pytest.raises(InvalidError, match="includebodies"):
        load(session, root, includeBodies=True)
    with pytest.raises(InvalidError, match="no path"):
        load(session)
    with pytest.raises((NotAStoreError, InvalidError), match="nothing"):
        load(session, tmp_path / "nothing-here")


def test_a_function_runs_where_the_batches_are_read(
    session: SparkSession, root: Path
) -> None:
    """
    Once in each task, with all of its batches.
    """

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sizes = [len(body) for one in batches for body in one["body"].to_pylist()]
        yield pa.record_batch({"records": [len(sizes)], "bytes": [sum(sizes)]})

    found = map_batches(
        session,
        root,
        count,
        "records bigint, bytes bigint",
        includeBody=True,
        rowsPerBatch=7,
    )

    rows = found.collect()
    assert len(list((root / "commitlog").iterdir())) == len(rows)
    assert 300 == sum(row.records for row in rows)
    assert sum(number * 5 for number in range(300)) == sum(row.bytes for row in rows)
    none = map_batches(
        session,
        [root],
        count,
        "records bigint, bytes bigint",
        topics="X",
        includeBody=True,
    )
    assert 0 == sum(row.records for row in none.collect())
    with pytest.raises(InvalidError, match="includebodies"):
        map_batches(session, root, count, "records bigint", includeBodies=True)
