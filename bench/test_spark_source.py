"""
How fast Spark gets a store as a table, and how little of it a few records need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from contest import Contender, Contest, Figure, Timed, ratios
from large_stores import Stores
from load import Load
from machine import cached_share, drop_cache, warm_cache
from table import Table

from pystore.messages import Message
from pystore.options import LogOptions
from pystore.reading import open_reader
from pystore.spark import register
from pystore.spark.columns import choose_columns, ddl
from pystore.spark.export.job import export
from pystore.spark.export.run import Request
from pystore.spark.options import SourceOptions
from pystore.spark.plan import plan_splits
from pystore.spark.reading import read_split
from pystore.spark.selection import Selection
from pystore.spark.session import java_problem, open_session
from pystore.store import Store

if TYPE_CHECKING:
    from conftest import Sizes
    from pyspark.sql import DataFrame, SparkSession

_CORES = 2
_SEGMENTS = 100


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    """
    Two workers.
    """
    problem = java_problem()
    if problem:
        pytest.skip(problem)
    with open_session("bench", f"local[{_CORES}]") as session:
        register(session)
        yield session


def _load(session: SparkSession, root: Path, **options: str) -> DataFrame:
    return session.read.format("pystore").options(**options).load(str(root))


def _log_bytes(root: Path) -> int:
    log, _ = open_reader(root, LogOptions())
    with log:
        return log.ends().published_end


def _pass(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _of(run: Callable[[], object]) -> Contender:
    @contextmanager
    def contend() -> Iterator[Timed]:
        yield lambda: (run(), None)[1]

    return contend


@pytest.mark.benchmark(group="count by topic on Spark, cache warm, local[2]")
@pytest.mark.parametrize(
    ("what", "options"),
    [("columns=topic", {"columns": "topic"}), ("all but bodies", {})],
    ids=["topic", "all"],
)
def test_counting_by_topic_on_spark(
    session: SparkSession,
    stores: Stores,
    contest: Contest,
    table: Table,
    what: str,
    options: dict[str, str],
) -> None:
    """
    Timed: loading the table, planning and counting, in a session that ran it before.
    """
    root = stores.closed
    log_bytes = _log_bytes(root)

    def count() -> None:
        frame = _load(session, root, includeBody="false", **options)
        ((_, found),) = frame.groupBy("topic").count().collect()
        assert stores.load.records == found

    warm_cache(stores.segments(root))
    count()
    taken = contest.hold(_of(count), {})["pystore"]

    table.at_least(
        f"count by topic on Spark ({what}), of 1 GB/s per core",
        1.0,
        taken.scaled(log_bytes / 1e9 / _CORES),
        {"both cores": f"{taken.scaled(log_bytes).median / 1e9:.2f} GB/s of log"},
    )


def _repeated(batch: bytes, times: int) -> Callable[[Any], Iterator[pa.RecordBatch]]:
    """
    A function for ``mapInArrow`` that does nothing but hand on one batch.
    """

    def give(_: Any) -> Iterator[pa.RecordBatch]:
        with pa.ipc.open_stream(batch) as reader:
            same = reader.read_next_batch()
        for _number in range(times):
            yield same

    return give


@pytest.mark.benchmark(group="all columns and bodies into a sink, cache warm, local[2]")
def test_reading_all_on_spark_is_near_handing_on_the_same_bytes(
    session: SparkSession, stores: Stores, contest: Contest, table: Table
) -> None:
    """
    Timed: all columns with bodies, into a sink that drops them. The limit hands on a
    batch of the same rows that it made before, as often.
    """
    root = stores.closed
    log_bytes = _log_bytes(root)
    columns = choose_columns(None, with_body=True, with_damage=False)
    options = SourceOptions((str(root),))
    splits = plan_splits([root], options, Selection(), with_epochs=True)
    batches = read_split(
        splits[0], columns, Selection(), on_damage="fail", rows_per_batch=8192
    )
    batch = next(batches)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    times = -(-stores.load.records // batch.num_rows // len(splits))
    give = _repeated(sink.getvalue().to_pybytes(), times)
    rows = times * batch.num_rows * len(splits)

    def hand_on() -> None:
        tasks = session.range(0, len(splits), 1, len(splits))
        _pass(tasks.mapInArrow(give, ddl(columns)))

    def read() -> None:
        _pass(_load(session, root, includeBody="true"))

    warm_cache(stores.segments(root))
    read()
    hand_on()
    taken = contest.hold(_of(read), {"mapInArrow": _of(hand_on)})

    share = stores.load.records / rows
    table.at_least(
        "all columns and bodies on Spark, of a `mapInArrow` job that hands on the same",
        0.70,
        ratios(taken["mapInArrow"], taken["pystore"], share),
        {
            name: f"{taken[name].scaled(size).median / 1e9:.2f} GB/s of log"
            for name, size in (
                ("mapInArrow", log_bytes / share),
                ("pystore", log_bytes),
            )
        },
    )


@pytest.mark.benchmark(group="one of 100 segments on Spark, cold")
def test_a_rare_topic_costs_few_bytes(
    session: SparkSession,
    folder: Callable[[], Path],
    contest: Contest,
    table: Table,
    sizes: Sizes,
) -> None:
    """
    Counted: the pages of log and queues that a query for a topic in one segment of a
    hundred brings into an empty cache.
    """
    segment = min(8 << 20, sizes.segment // 8)
    root = folder() / "store"
    load = Load.of(segment // 2, 256)
    with Store(root, segment_size=segment) as store:
        for number in range(_SEGMENTS * 2):
            if number == _SEGMENTS:
                store.log.append(Message("rare", b"here"))
            for _ in range(load.batches):
                store.log.append_columns(load.columns)
    files = [*root.glob("commitlog/*"), *root.glob("consumequeue/*/*/*")]
    total = sum(path.stat().st_size for path in files)
    shares: list[float] = []

    @contextmanager
    def contend() -> Iterator[Timed]:
        drop_cache(files)
        before = cached_share(files)
        yield lambda: _found(_load(session, root, topics="rare", columns="topic"))
        shares.append(cached_share(files) - before)

    def _found(frame: DataFrame) -> None:
        assert frame.count() == 1

    contest.hold(contend, {})

    table.at_most(
        "a topic in one of 100 segments on Spark, of all bytes",
        3.0,
        Figure(tuple(100 * share for share in shares)),
        "%",
        {"store": f"{total / 1e9:.2f} GB with its queues"},
    )


@pytest.mark.benchmark(group="export to Parquet on Spark, cache warm, local[2]")
def test_exporting_is_faster_than_spark_writes_parquet(
    session: SparkSession,
    stores: Stores,
    folder: Callable[[], Path],
    contest: Contest,
    table: Table,
) -> None:
    """
    Timed: all columns with bodies until they are published and synced, beside Spark's
    own writer on the same table, with the same partitions and codec, not synced.
    """
    root = stores.closed
    log_bytes = _log_bytes(root)

    @contextmanager
    def ours() -> Iterator[Timed]:
        into = folder() / "messages"
        request = Request((str(root),), into, bodies=True)
        yield lambda: (export(session, request), None)[1]
        assert next(into.glob("run=1/*/*/*.parquet"))

    @contextmanager
    def spark() -> Iterator[Timed]:
        into = str(folder() / "messages")
        frame = _load(session, root, includeBody="true")
        frame = frame.selectExpr("*", "to_date(storeTimestamp) as day")
        writer = frame.write.partitionBy("topic", "day").option("compression", "zstd")
        yield lambda: writer.parquet(into)

    warm_cache(stores.segments(root))
    taken = contest.hold(ours, {"Spark": spark})

    table.at_least(
        "`spark export`, of Spark's own Parquet writer",
        0.90,
        ratios(taken["Spark"], taken["pystore"]),
        {
            name: f"{taken[name].scaled(log_bytes).median / 1e9:.2f} GB/s of log"
            for name in ("Spark", "pystore")
        },
    )
