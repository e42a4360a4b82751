"""
``spark.read.format("pystore")`` in a session.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lib.oracle.golden_data import GoldenStore
from lib.store.logs import SEGMENT_SIZE, make_root, open_log
from pyspark.sql import DataFrame, SparkSession

from pystore.message.message import Message
from pystore.spark.plan.schema import COLUMNS
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


def load(session: SparkSession, *paths: Path | str, **options: Any) -> DataFrame:
    """
    The stores as a table.
    """
    reader = session.read.format("pystore").options(**options)
    return reader.load(
        [str(path) for path in paths] if len(paths) > 1 else str(paths[0])
    )


def test_a_store_of_java_is_a_table(
    session: SparkSession, golden_store: GoldenStore, golden_root: Path
) -> None:
    """
    Every column equals RocketMQ's own value.
    """
    table = load(session, golden_root, includeBody="true")

    rows = table.orderBy("offset").collect()

    lines = golden_store.records
    assert [line["offset"] for line in lines] == [row.offset for row in rows]
    for line, row in zip(lines, rows, strict=True):
        assert line["topic"] == row.topic
        assert line["properties"] == row.properties
        assert line["bodyLength"] == len(row.body)
        assert line["msgId"] == row.msgId
        assert line["tagsCode"] == row.tagsCode
        assert line["storeTimestamp"] == round(row.storeTimestamp.timestamp() * 1000)


def test_only_the_requested_columns_are_read(session: SparkSession, root: Path) -> None:
    """
    By a schema or by an option, in any order.
    """
    by_schema = session.read.format("pystore").schema("topic string, offset bigint")
    by_option = load(session, root, columns="topic,offset")

    assert ["topic", "offset"] == by_option.columns
    assert by_option.collect() == by_schema.load(str(root)).collect()
    assert "body" not in load(session, root).columns
    assert set(COLUMNS) == set(
        load(session, root, includeBody="true", onDamage="report").columns
    )


def test_a_schema_has_any_case_and_columns_of_nulls(
    session: SparkSession, root: Path
) -> None:
    """
    As for files: names are those of the user, and what a table lacks is null.
    """
    reader = session.read.format("pystore")
    table = reader.schema("TOPIC string, added date, BodyLength int").load(str(root))

    assert ["TOPIC", "added", "BodyLength"] == table.columns
    rows = table.where("TOPIC = 'T1'").collect()
    assert 100 == len(rows)
    assert {("T1", None)} == {(row.TOPIC, row.added) for row in rows}
    assert sum(row.BodyLength for row in rows) > 0
    for schema, text in (
        ("topic string, TOPIC string", "twice|already exists"),
        ("added array<double>", "nulls of type"),
        ("topic int", "is string, not int"),
    ):
        with pytest.raises(Exception, match=text):
            reader.schema(schema).load(str(root)).collect()


def test_a_column_that_can_be_null_must_be_nullable_in_a_schema(
    session: SparkSession, root: Path
) -> None:
    """
    A schema of the user may not promise more than the table.
    """
    reader = session.read.format("pystore")
    whole = load(session, root)
    promised = reader.schema("topic string NOT NULL, tags string").load(str(root))

    assert promised.collect() == whole.select("topic", "tags").collect()
    assert {"epoch", "storeTimestamp", "bornTimestamp", "keys", "tags", "uniqKey"} == {
        field.name for field in whole.schema if field.nullable
    }
    with pytest.raises(Exception, match="'tags' can be null: remove NOT NULL"):
        reader.schema("tags string NOT NULL").load(str(root)).collect()
    reported = reader.schema("topic string NOT NULL").option("onDamage", "report")
    with pytest.raises(Exception, match="'topic' can be null: remove NOT NULL"):
        reported.load(str(root)).collect()


def test_a_table_may_be_queried_again(session: SparkSession, root: Path) -> None:
    """
    A filter of one query, or of one branch, does not affect another one.
    """
    table = load(session, root)
    one, other = table.where("topic = 'T1'"), table.where("topic = 'T2'")

    assert (300, 100, 300) == (table.count(), one.count(), table.count())
    assert 200 == one.union(other).count()
    assert 400 == table.union(one).count()
    assert 100 == one.join(table.select("offset"), "offset").count()


def test_options_leave_segments_and_rows_out(session: SparkSession, root: Path) -> None:
    """
    Topics by patterns, store times with an exclusive end.
    """
    table = load(session, root, columns="topic,storeTimestamp")
    last = table.agg({"storeTimestamp": "max"}).collect()[0][0].isoformat()

    two = load(session, root, topics="T1, T[2-9]")
    early = load(session, root, toTime="2020-01-01")

    assert 100 == load(session, root, topics="T1").count()
    assert {"T1", "T2"} == {row.topic for row in two.select("topic").collect()}
    assert (0, 0) == (early.count(), early.rdd.getNumPartitions() - 1)
    before = load(session, root, toTime=last).count()
    assert 300 == before + load(session, root, fromTime=last).count()
    assert before < 300


def test_every_branch_of_a_query_has_its_own_filter(
    session: SparkSession, root: Path
) -> None:
    """
    The same table is counted twice, joined with itself, united, in a view and in common
    table expressions.
    """
    table = load(session, root)
    one, other = table.where("topic = 'T1'"), table.where("topic = 'T2'")
    table.createOrReplaceTempView("messages")

    assert (100, 300) == (one.count(), table.count())
    assert 200 == one.union(other).count()
    assert 100 == one.alias("a").join(one.alias("b"), "offset").count()
    assert 0 == one.join(other, "offset").count()
    assert 100 == table.where("queueId = 1").join(one, "offset", "right").count()
    for topic in ("T1", "T2"):
        assert 100 == _one(
            session, f"SELECT count(*) FROM messages WHERE topic='{topic}'"
        )
    assert 200 == _one(
        session,
        "WITH a AS (SELECT * FROM messages WHERE topic='T1'), "
        "b AS (SELECT * FROM messages WHERE topic='T2') "
        "SELECT (SELECT count(*) FROM a) + (SELECT count(*) FROM b)",
    )


def _one(session: SparkSession, text: str) -> int:
    ((found,),) = session.sql(text).collect()
    return int(found)


def test_a_catalog_may_hold_a_table(session: SparkSession, root: Path) -> None:
    """
    Its own properties are no options of the source. Spark 4.3 passes no options of the
    table to a Python source that reads it: the query names the path.
    """
    session.sql("DROP TABLE IF EXISTS catalogued")
    session.sql(
        f"CREATE TABLE catalogued USING pystore OPTIONS (path '{root}', topics 'T1')"
    )
    try:
        query = "SELECT count(*) FROM catalogued"
        assert 100 == _one(session, f"{query} WITH (path = '{root}', topics = 'T1')")
        with pytest.raises(Exception, match=r"add WITH \(path"):
            _one(session, query)
    finally:
        session.sql("DROP TABLE catalogued")


def test_consume_queues_leave_segments_out(
    session: SparkSession, tmp_path: Path
) -> None:
    """
    There are fewer tasks for a topic that is in one segment.
    """
    with Store(tmp_path / "store", segment_size=SEGMENT_SIZE) as store:
        for number in range(200):
            store.log.append(Message("T1" if number == 90 else "T0", bytes(2000)))
    root = tmp_path / "store"

    rare = load(session, root, topics="T1")

    assert (7, 1) == (
        load(session, root).rdd.getNumPartitions(),
        rare.rdd.getNumPartitions(),
    )
    assert ["T1"] == [row.topic for row in rare.collect()]


def test_several_stores_are_one_table(session: SparkSession, root: Path) -> None:
    """
    The column ``store`` distinguishes them.
    """
    table = load(session, f"{root.parent}/*")

    counts = {
        row.store: row["count"] for row in table.groupBy("store").count().collect()
    }

    assert {str(root): 300} == counts


def test_an_empty_store_is_an_empty_table(
    session: SparkSession, tmp_path: Path
) -> None:
    """
    It has its columns.
    """
    table = load(session, make_root(tmp_path))

    assert 0 == table.count()
    assert "offset" in table.columns


def test_damage_fails_a_query_or_is_a_row(session: SparkSession, root: Path) -> None:
    """
    The error is one line with the offset; a report is a row.
    """
    path = sorted((root / "commitlog").iterdir())[2]
    content = bytearray(path.read_bytes())
    content[4:8] = b"oops"
    path.write_bytes(content)

    with pytest.raises(
        Exception, match=f"{path.name}: record at offset {int(path.name)}"
    ):
        load(session, root).collect()
    rows = load(session, root, onDamage="report").where("damage is not null").collect()
    assert [(2 * SEGMENT_SIZE, int.from_bytes(content[:4]))] == [
        (row.offset, row.size) for row in rows
    ]
    assert 299 == load(session, root, onDamage="skip").count()


@pytest.mark.parametrize(
    ("options", "output"),
    [
        ({"onDamage": "ignore"}, "onDamage 'ignore'"),
        ({"columns": "topics"}, "column 'topics'"),
        ({"fromOffset": "x"}, "fromOffset 'x'"),
    ],
)
def test_invalid_options_are_an_error(
    session: SparkSession, root: Path, options: dict[str, str], output: str
) -> None:
    """
    Before anything is read.
    """
    with pytest.raises(Exception, match=output):
        load(session, root, **options).count()


def test_a_path_without_a_store_is_told_in_words(
    session: SparkSession, tmp_path: Path
) -> None:
    """
    An empty table would look like an empty log.
    """
    with pytest.raises(Exception, match="no such directory"):
        load(session, tmp_path / "nothing").count()


@pytest.mark.slow
def test_a_cluster_of_processes_reads_the_same_rows(root: Path, tmp_path: Path) -> None:
    """
    A driver and two workers share only the disk.
    """
    script = tmp_path / "count.py"
    script.write_text(
        "import sys\n"
        "from pyspark.sql import SparkSession\n"
        "from pystore.spark import register\n"
        "builder = SparkSession.builder.master('local-cluster[2,1,1024]')\n"
        "builder = builder.config('spark.ui.enabled', 'false')\n"
        "session = builder.config('spark.driver.host', '127.0.0.1').getOrCreate()\n"
        "register(session)\n"
        "table = session.read.format('pystore').load(sys.argv[1])\n"
        "print('counted', table.groupBy('topic').count().count(), table.count())\n"
        "session.stop()\n"
    )

    done = subprocess.run(
        [sys.executable, str(script), str(root)],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )

    assert "counted 3 300" in done.stdout, done.stderr[-2000:]
