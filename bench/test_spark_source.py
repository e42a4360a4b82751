"""
The speed of a store as a table in Spark, and the bytes that few records need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from batch_files import Give, repeat_first, write_splits, yield_files
from contest import Contender, Contest, Figure, Timed, measure, ratios
from large_stores import Stores
from load import Load
from machine import cached_share, drop_cache, warm_cache
from own_jvm import bench_session
from store_times import set_minutes
from table import Table

from pystore import arrow_reader
from pystore.core.options import LogOptions
from pystore.message.message import Message
from pystore.spark import load, map_batches, register
from pystore.spark.export.job import export
from pystore.spark.export.run import ExportRequest
from pystore.spark.plan.options import SourceOptions
from pystore.spark.plan.requested import requested_columns
from pystore.spark.plan.schema import Column, ddl
from pystore.spark.plan.selection import Selection
from pystore.spark.plan.splits import plan_splits
from pystore.spark.scan.task import read_split
from pystore.store.open_reader import open_reader
from pystore.store.store import Store

if TYPE_CHECKING:
    from conftest import Sizes
    from pyspark.sql import DataFrame, SparkSession
    from pytest_benchmark.fixture import BenchmarkFixture

_CORES = 2
_SEGMENTS = 100
_FIRST_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    """
    Two workers.
    """
    with bench_session(f"local[{_CORES}]") as session:
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
    ("what", "wanted"),
    [("columns=topic", ("topic",)), ("all but bodies", None)],
    ids=["topic", "all"],
)
def test_counting_by_topic_on_spark(
    session: SparkSession,
    stores: Stores,
    folder: Callable[[], Path],
    contest: Contest,
    table: Table,
    what: str,
    wanted: tuple[str, ...] | None,
) -> None:
    """
    Timed: loading the table, planning and counting, in a session that ran it before;
    by `pystore.spark.load`, by `format("pystore")`, and from batches that were made
    before: the time of Spark itself for these columns.
    """
    root = stores.closed
    log_bytes = _log_bytes(root)
    asked = SourceOptions((str(root),), columns=wanted)
    columns, arrow = requested_columns(asked), folder()
    ready = _write(root, arrow, columns)
    numbers = session.range(0, len(ready), 1, len(ready))
    options = {"columns": ",".join(wanted)} if wanted else {}

    def from_files(*_: object, **__: str) -> DataFrame:
        return numbers.mapInArrow(yield_files(arrow), ddl(columns))

    def count(read: Callable[..., DataFrame]) -> None:
        frame = read(session, root, includeBody="false", **options)
        ((_, found),) = frame.groupBy("topic").count().collect()
        assert stores.load.records == found

    limits: dict[str, Callable[..., DataFrame]] = {
        "format": _load,
        "mapInArrow": from_files,
    }
    warm_cache([*stores.segments(root), *ready])
    for read in (load, *limits.values()):
        count(read)
    taken = contest.hold(
        _of(lambda: count(load)),
        {name: _of(partial(count, read)) for name, read in limits.items()},
    )

    values = {
        name: f"{seconds.scaled(log_bytes).median / 1e9:.2f} GB/s of log, both cores"
        for name, seconds in taken.items()
    }
    for name, seconds in taken.items():
        rate = seconds.scaled(log_bytes / 1e9 / _CORES)
        counted = f"count by topic on Spark ({what}) by {name}, of 1 GB/s per core"
        if name != "mapInArrow":
            table.at_least(counted, 1.0, rate, values)
        else:
            table.note(counted, rate, values)


@pytest.mark.benchmark(group="all columns into a sink, cache warm, local[2]")
@pytest.mark.parametrize("with_body", [True, False], ids=["bodies", "no bodies"])
def test_reading_all_on_spark_is_near_yielding_the_same_bytes(
    session: SparkSession,
    stores: Stores,
    folder: Callable[[], Path],
    contest: Contest,
    table: Table,
    with_body: bool,
) -> None:
    """
    Timed: all columns, by `pystore.spark.load` into a sink that drops them. The limit
    yields the same rows in the same batches, from files that were made before. For
    comparison: a job that yields the first batch repeatedly, and `format("pystore")`,
    whose rows Spark copies once more.
    """
    root, arrow = stores.closed, folder()
    columns = requested_columns(SourceOptions((str(root),), include_body=with_body))
    ready = _write(root, arrow, columns)
    tasks = len(ready)
    with pa.memory_map(str(ready[0])) as mapped, pa.ipc.open_file(mapped) as file:
        batch_rows = file.get_batch(0).num_rows
    times = -(-stores.load.records // batch_rows // tasks)

    def pass_on(give: Give) -> Contender:
        numbers = session.range(0, tasks, 1, tasks)
        return _of(lambda: _pass(numbers.mapInArrow(give, ddl(columns))))

    limits = {
        "mapInArrow": pass_on(yield_files(arrow)),
        "one hot batch": pass_on(repeat_first(ready[0], times)),
    }
    body = str(with_body).lower()
    limits["format"] = _of(lambda: _pass(_load(session, root, includeBody=body)))
    ours = _of(lambda: _pass(load(session, root, includeBody=body)))
    warm_cache([*stores.segments(root), *ready])
    for contender in (*limits.values(), ours):
        measure(contender)
    taken = contest.hold(ours, limits)

    records = stores.load.records
    rows = dict.fromkeys(taken, records) | {"one hot batch": times * batch_rows * tasks}
    log_bytes = _log_bytes(root)
    values = {
        name: f"{figure.scaled(log_bytes * rows[name] / records).median / 1e9:.2f} GB/s"
        " of log"
        for name, figure in taken.items()
    }
    what = "all columns and bodies" if with_body else "all columns without bodies"
    same = ratios(taken["mapInArrow"], taken["pystore"])
    named = f"{what} on Spark, of a `mapInArrow` job that yields the same bytes"
    if with_body:
        table.at_least(named, 0.70, same, values)
    else:
        table.note(named, same, values)
    hot = ratios(
        taken["one hot batch"], taken["pystore"], records / rows["one hot batch"]
    )
    table.note(f"{what} on Spark, of one hot batch, repeated", hot, values)
    twice = ratios(taken["mapInArrow"], taken["format"])
    table.note(f"{what} by `format`, of a `mapInArrow` job", twice, values)


@pytest.mark.benchmark(group="Arrow batches without Spark, cache warm")
def test_record_batches_come_without_spark(
    stores: Stores, contest: Contest, table: Table
) -> None:
    """
    Timed: all columns with bodies, one process and one thread.
    """
    root = stores.closed
    log_bytes = _log_bytes(root)

    def read() -> None:
        batches = arrow_reader(root, include_body=True)
        assert stores.load.records == sum(batch.num_rows for batch in batches)

    warm_cache(stores.segments(root))
    read()
    taken = contest.hold(_of(read), {})

    rate = taken["pystore"].scaled(log_bytes / 1e9)
    table.at_least("`arrow_reader`, all columns with bodies", 1.0, rate, {})


@pytest.mark.benchmark(group="a count over batches on Spark, cache warm, local[2]")
def test_work_on_rows_where_they_are_read(
    session: SparkSession, stores: Stores, contest: Contest, table: Table
) -> None:
    """
    Timed: the bytes of all bodies, by `map_batches`, and by `mapInArrow` behind the
    source and behind `load`.
    """
    root = stores.closed
    log_bytes = _log_bytes(root)

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch({"rows": [batch.num_rows]})

    def check(way: Callable[[], DataFrame]) -> None:
        ((found,),) = way().agg({"rows": "sum"}).collect()
        assert stores.load.records == found

    ways = {
        "pystore": lambda: map_batches(
            session, root, count, "rows bigint", includeBody=True
        ),
        "format": lambda: _load(session, root, includeBody="true").mapInArrow(
            count, "rows bigint"
        ),
        "load": lambda: load(session, root, includeBody=True).mapInArrow(
            count, "rows bigint"
        ),
    }
    warm_cache(stores.segments(root))
    runs = {name: _of(partial(check, way)) for name, way in ways.items()}
    for contender in runs.values():
        measure(contender)
    taken = contest.hold(runs.pop("pystore"), runs)

    values = {
        name: f"{seconds.scaled(log_bytes).median / 1e9:.2f} GB/s of log"
        for name, seconds in taken.items()
    }
    same = ratios(taken["format"], taken["pystore"])
    table.at_least(
        "`map_batches`, times `mapInArrow` behind `format`", 7.0, same, values
    )


def _write(root: Path, into: Path, columns: Sequence[Column]) -> list[Path]:
    """
    Writes the batches of a query's tasks into files.
    """
    options = SourceOptions((str(root),))
    splits = plan_splits([root], options, Selection(), with_epochs=True)
    batches = [
        read_split(
            split,
            columns,
            Selection(),
            on_damage="fail",
            rows_per_batch=options.rows_per_batch,
        )
        for split in splits
    ]
    return write_splits(into, batches)


@pytest.mark.benchmark(group="one of 100 segments on Spark, cold")
@pytest.mark.parametrize("what", ["topic", "time"])
def test_a_rare_topic_costs_few_bytes(
    session: SparkSession,
    folder: Callable[[], Path],
    benchmark: BenchmarkFixture,
    table: Table,
    sizes: Sizes,
    what: str,
) -> None:
    """
    Counted: the pages of log and queues that a query brings into an empty cache, for
    a topic or for a time that are in one segment of a hundred.
    """
    root = folder() / "store"
    records = _store_hundred(root, min(8 << 20, sizes.segment // 8))
    options = {"topics": "rare"}
    if what == "time":
        set_minutes(root, _FIRST_MS)
        begin_ms = _FIRST_MS + _SEGMENTS // 2 * 60_000
        options = {"fromTime": _shown(begin_ms), "toTime": _shown(begin_ms + 1000)}
    least, most = (1, 1) if what == "topic" else (2, records // _SEGMENTS * 2)
    files = [*root.glob("commitlog/*"), *root.glob("consumequeue/*/*/*")]
    total = sum(path.stat().st_size for path in files)
    shares: list[float] = []

    def query() -> None:
        found = _load(session, root, columns="topic", **options).count()
        assert least <= found <= most

    @contextmanager
    def contend() -> Iterator[Timed]:
        drop_cache(files)
        before = cached_share(files)
        yield query
        shares.append(cached_share(files) - before)

    # Counts do not spread: two show it.
    Contest(benchmark, min(2, sizes.rounds)).hold(contend, {})

    table.at_most(
        f"a {what} in one of 100 segments on Spark, of all bytes",
        3.0,
        Figure(tuple(100 * share for share in shares)),
        "%",
        {"store": f"{total / 1e9:.2f} GB with its queues"},
    )


def _store_hundred(root: Path, segment: int) -> int:
    """
    Fills a hundred segments, with one record of a rare topic; returns the records.
    """
    load = Load.of(segment // 2, 256)
    with Store(root, segment_size=segment) as store:
        for number in range(_SEGMENTS * 2):
            if number == _SEGMENTS:
                store.log.append(Message("rare", b"here"))
            for _ in range(load.batches):
                store.log.append_columns(load.columns)
    return _SEGMENTS * 2 * load.records + 1


def _shown(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


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
        request = ExportRequest((str(root),), into, bodies=True)
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
