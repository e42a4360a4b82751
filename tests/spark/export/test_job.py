"""
Exports on Spark with killed drivers, killed executors and speculative tasks.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from lib.command_line import PYSTORE, overwrite, run, run_json, segment_file
from lib.spark.exports import SEGMENT, Growing, visible
from pyspark.sql import SparkSession

from pystore.message.message import Message
from pystore.spark.export.job import export
from pystore.spark.export.run import ExportRequest
from pystore.store.commit_log import CommitLog

KILLS = int(os.environ.get("SPARK_KILLS", "1"))
SEED = int(os.environ.get("PS_SEED", "1"))

ODD_TOPICS = ["%RETRY%group", "a b", "größe", "x{1}", "123", "a=b:c?d*e'f"]


@pytest.fixture
def store(tmp_path: Path) -> Growing:
    """
    A store of 300 records in several segments.
    """
    return Growing.new(tmp_path / "store", 300)


def test_runs_on_spark_export_each_record_once(
    session: SparkSession, store: Growing, tmp_path: Path
) -> None:
    """
    Spark reads the result, with topic and day as columns.
    """
    into = tmp_path / "out"

    export(session, ExportRequest((str(store.root),), into, bodies=True))
    store.grow(50)
    export(session, ExportRequest((str(store.root),), into))

    table = session.read.parquet(str(into))
    rows = table.orderBy("offset").collect()
    assert store.records == [(row.topic, row.offset, bytes(row.body)) for row in rows]
    assert {1, 2} == {row.run for row in rows}
    assert ("day", "date") in table.dtypes
    assert all(row.day == row.storeTimestamp.date() for row in rows)


def test_topics_of_any_name_are_read_back(
    session: SparkSession, tmp_path: Path
) -> None:
    """
    In Spark and in pyarrow, from the names of directories.
    """
    into = tmp_path / "out"
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        for topic in ODD_TOPICS:
            log.append(Message(topic, topic.encode()))

    export(session, ExportRequest((str(tmp_path / "store"),), into, bodies=True))

    of_spark = session.read.parquet(str(into)).collect()
    assert set(ODD_TOPICS) == {row.topic for row in of_spark}
    assert all(row.topic.encode() == bytes(row.body) for row in of_spark)
    of_arrow = pq.read_table(into).to_pylist()
    assert all(row["topic"].encode() == row["body"] for row in of_arrow)


def test_the_command_reports_the_run(
    session: SparkSession, store: Growing, tmp_path: Path
) -> None:
    """
    In lines for people, as JSON, and by its exit code.
    """
    assert session is not None
    into, again = tmp_path / "out", ("--into", tmp_path / "out")

    output = run("spark", "export", store.root, "--into", into, "--bodies")
    nothing = run("spark", "export", store.root, *again)
    store.grow(20)
    at = store.offsets[310]
    overwrite(segment_file(store.root, at // SEGMENT * SEGMENT), at % SEGMENT, b"oops")
    failed = run("spark", "export", store.root, *again)
    found = run_json(
        *("spark", "export", store.root, *again, "--on-damage", "report"), exit_code=1
    )

    assert f"{into}: run 1: 300 records in " in output.stdout
    assert f"{into}: there are no new records\n" == nothing.stdout
    assert (0, 0, 3) == (output.exit_code, nothing.exit_code, failed.exit_code)
    assert f"in a task: {store.root}/commitlog/" in failed.stderr
    assert 2 == found["run"]
    assert at == found["damages"][0]["offset"]
    assert 300 <= len(visible(into)) < 320


def has_ended(process: subprocess.Popen[bytes], within_seconds: float) -> bool:
    """
    Whether a process ends within some time.
    """
    try:
        process.wait(within_seconds)
    except subprocess.TimeoutExpired:  # it runs
        return False
    return True


def test_a_killed_driver_exports_no_record_twice(
    session: SparkSession, store: Growing, tmp_path: Path
) -> None:
    """
    It is killed anywhere and run again while the store grows: each record is exported
    once.
    """
    into, chance = tmp_path / "out", random.Random(SEED)
    into.mkdir()
    print(f"PS_SEED={SEED}")
    for _ in range(KILLS):
        driver = subprocess.Popen(
            [*PYSTORE, "spark", "export", store.root, "--into", into, "--bodies"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while not any(into.glob("_export/staging/*/attempts/*")):
            if has_ended(driver, 0.01):
                break
        has_ended(driver, chance.random() / 4)
        driver.kill()
        driver.wait()
        seen = [row["offset"] for row in visible(into)]
        assert store.offsets[: len(seen)] == seen
        store.grow(20)

    export(session, ExportRequest((str(store.root),), into, bodies=True))

    assert store.records == [
        (row["topic"], row["offset"], row["body"]) for row in visible(into)
    ]


_UNLUCKY = """
import os, signal, sys, time
from pathlib import Path
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pystore.spark.export import job
from pystore.spark.export.run import ExportRequest
from pystore.spark.export.task import write_task

root, into = sys.argv[1:]

def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

def unlucky(task):
    place = TaskContext.get()
    note = Path(into).parent / f"{place.partitionId()}-{place.attemptNumber()}"
    note.touch()
    if place.partitionId() == 0 and place.attemptNumber() == 0:
        write_task(task)
        os.kill(parent(os.getppid()), signal.SIGKILL)  # the executor
    rival = note.with_name(f"{place.partitionId()}-{1 - place.attemptNumber()}")
    limit = time.monotonic() + 60
    while place.partitionId() == 1 and not rival.exists():
        assert time.monotonic() < limit, "there was no speculative task"
        time.sleep(0.02)
    return write_task(task)

job.write_task = unlucky
builder = SparkSession.builder.master("local-cluster[2,1,1024]")
for name, value in {
    "ui.enabled": "false",
    "driver.host": "127.0.0.1",
    "speculation": "true",
    "speculation.interval": "20ms",
    "speculation.quantile": "0.1",
    "speculation.multiplier": "1.1",
    "speculation.minTaskRuntime": "20ms",
}.items():
    builder = builder.config(f"spark.{name}", value)
session = builder.getOrCreate()
print(job.export(session, ExportRequest((root,), Path(into), bodies=True)).records)
session.stop()
"""


@pytest.mark.slow
def test_killed_executors_and_speculation_change_nothing(
    store: Growing, tmp_path: Path
) -> None:
    """
    An executor is killed when its task has written, and another task runs twice.
    """
    into = tmp_path / "out"

    done = subprocess.run(
        [sys.executable, "-c", _UNLUCKY, str(store.root), str(into)],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )

    assert done.stdout.split()[-1:] == ["300"], done.stderr[-2000:]
    assert (tmp_path / "0-1").exists()
    assert (tmp_path / "1-1").exists()
    assert store.records == [
        (row["topic"], row["offset"], row["body"]) for row in visible(into)
    ]
    assert [] == list(into.glob("_export/staging/*"))
