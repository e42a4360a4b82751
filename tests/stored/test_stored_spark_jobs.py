"""
Jobs on Spark go on from what revision 7f377bd left: checkpoints of streams, an export,
an unfinished compaction. Without Java they are skipped.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
from pyspark.sql import DataFrame, SparkSession
from stored.asking import run, run_json
from stored.unpacking import HERE, unpack

from pystore.spark import register

EXPECTED: dict[str, Any] = json.loads((HERE / "expected.json").read_text())["jobs"]
OFFSETS: list[int] = EXPECTED["offsets"]
SIZES = ("--log-file-bytes", "4000", "--queue-file-bytes", "1656")


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    """
    A session of two threads that knows the format; that of other tests if there is one.
    """
    if shutil.which("java") is None:
        pytest.skip("needs Java 17 or 21")
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Java processes that live for seconds: the second compiler is no gain for them.
    os.environ["SPARK_SUBMIT_OPTS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    is_ours = SparkSession.getActiveSession() is None
    builder = SparkSession.builder.master("local[2]")
    session = (
        builder.config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    register(session)
    yield session
    if is_ours:
        session.stop()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """
    The store that the jobs read, with twice as many records as they saw.
    """
    return unpack("jobs-store", tmp_path)


def follow(
    session: SparkSession, store: Path, checkpoint: Path
) -> dict[int, list[int]]:
    """
    Goes on with a stream; returns the offsets of each batch, by its number.
    """
    batches: dict[int, list[int]] = {}

    def take(batch: DataFrame, number: int) -> None:
        batches[number] = sorted(row.offset for row in batch.collect())

    reader = session.readStream.format("pystore").option("maxRecordsPerTrigger", "40")
    writer = reader.load(str(store)).writeStream.foreachBatch(take)
    writer = writer.option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    return batches


def digests(into: Path) -> dict[str, str]:
    """
    Every file and link of a published compaction, by what it holds; its manifest has
    paths.
    """
    found = {}
    for path in sorted((into / "compaction").rglob("*")):
        name = path.relative_to(into).as_posix()
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_file() and path.name != "manifest.json":
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def test_a_stream_goes_on_from_its_checkpoint(
    session: SparkSession, store: Path, tmp_path: Path
) -> None:
    """
    It reads the second half of the store alone, each record once.
    """
    batches = follow(session, store, unpack("stream-finished", tmp_path))

    assert 3 == min(batches)
    assert OFFSETS[EXPECTED["half"] :] == list(chain(*batches.values()))


def test_a_stream_that_failed_repeats_the_batch_that_it_had_planned(
    session: SparkSession, store: Path, tmp_path: Path
) -> None:
    """
    Spark kept where that batch ends; it reads the same records as before.
    """
    batches = follow(session, store, unpack("stream-failed", tmp_path))

    half, done = EXPECTED["half"], EXPECTED["failed"]
    assert OFFSETS[done:half] == batches[2]
    assert OFFSETS[done:] == list(chain(*batches.values()))


def test_an_export_goes_on_with_its_next_run(
    session: SparkSession, store: Path, tmp_path: Path
) -> None:
    """
    A plain reader of Parquet sees each record of the store once.
    """
    assert session is not None
    into = unpack("export", tmp_path)

    done = run_json("spark", "export", store, "--into", into)

    assert 2 == done["run"]
    assert len(OFFSETS) - EXPECTED["half"] == done["records"]
    table = pyarrow.dataset.dataset(into, format="parquet", partitioning="hive")
    rows = table.to_table().to_pylist()
    assert sorted(OFFSETS) == sorted(row["offset"] for row in rows)
    assert {1, 2} == {row["run"] for row in rows}
    again = run("spark", "export", store, "--into", into)
    assert f"{into}: there are no new records\n" == again.stdout


def test_an_unfinished_compaction_is_resumed(
    session: SparkSession, store: Path, tmp_path: Path
) -> None:
    """
    It becomes what an undisturbed one is, of today and of 7f377bd.
    """
    assert session is not None
    words = ("spark", "compact", *SIZES, store, "--into")
    finished = unpack("compaction-finished", tmp_path)
    into = unpack("compaction-unfinished", tmp_path)

    resumed = run_json(*words, into)
    fresh = run_json(*words, tmp_path / "fresh")

    assert (True, False) == (resumed["resumed"], fresh["resumed"])
    assert fresh["queues"] == resumed["queues"]
    assert digests(finished) == digests(tmp_path / "fresh")
    assert digests(finished) == digests(into)
    assert not (into / "compacting").exists()


def test_a_finished_compaction_is_known_as_such(
    session: SparkSession, store: Path, tmp_path: Path
) -> None:
    """
    The same command does nothing to it, and its queues are ordinary logs.
    """
    assert session is not None
    into = unpack("compaction-finished", tmp_path)
    before = digests(into)

    again = run_json("spark", "compact", *SIZES, store, "--into", into)

    assert again["resumed"]
    assert before == digests(into)
    for queue in again["queues"]:
        root = into / "compaction" / "logs" / queue["topic"] / str(queue["queueId"])
        assert queue["keptRecords"] == len(run("dump", root).stdout.splitlines())
        assert 0 == run("verify", root).exit_code
