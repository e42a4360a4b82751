"""
Spark Connect: every job and every way to read, on a real server.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lib.spark.compaction import CHOICE, LocalJobs, digest, make_store
from lib.spark.exports import Growing, visible

from pystore.spark.compact.run import compact

PATIENCE_S = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    A folder of two stores and of what the jobs write.
    """
    return tmp_path_factory.mktemp("connect")


@pytest.fixture(scope="module")
def store(folder: Path) -> Growing:
    """
    A store of 300 records.
    """
    return Growing.new(folder / "store", 300)


@pytest.fixture(scope="module")
def compactable(folder: Path) -> Path:
    """
    A store with keys.
    """
    (folder / "keyed").mkdir()
    return make_store(folder / "keyed")


_SERVER = """
import sys
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[2]")
for name, value in {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": sys.argv[1],
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}.items():
    builder = builder.config(name, value)
session = builder.getOrCreate()
print("ready", flush=True)
sys.stdin.read()
session.stop()
"""


@pytest.fixture(scope="module")
def address(environment: None) -> Iterator[str]:  # noqa: ARG001
    """
    A server of Spark Connect.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER, str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        assert "ready\n" == server.stdout.readline()
        yield f"sc://127.0.0.1:{port}"
        # Its input ends with the block, and so does the server.


def _client(*words: object) -> subprocess.CompletedProcess[str]:
    """
    A program without Java.
    """
    return subprocess.run(
        [sys.executable, "-m", *map(str, words)],
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(sys.path), "JAVA_HOME": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


@pytest.fixture(scope="module")
def found(
    address: str, folder: Path, store: Growing, compactable: Path
) -> dict[str, Any]:
    """
    What a client found, in a process of its own: one process has one kind of session.
    """
    done = _client("lib.spark.connect_job", address, store.root, compactable, folder)
    assert 0 == done.returncode, done.stderr[-3000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert result["remote"]
    return result


def test_every_way_to_read_has_every_record(found: dict[str, Any]) -> None:
    """
    A table, `load`, `map_batches` and a stream.
    """
    ways = ("format", "load", "map_batches", "stream")
    assert dict.fromkeys(ways, 300) == {way: found[way] for way in ways}


def test_tasks_run_as_on_a_classic_session(found: dict[str, Any]) -> None:
    """
    In order, with one line for an error; the description goes with the job.
    """
    assert ["3", "1", "2"] == found["tasks"]
    assert "in a task: no such task" == found["error"]
    assert 2 == found["parallelism"]
    assert [] == found["tags"]


def test_an_export_has_each_record_once(
    found: dict[str, Any], folder: Path, store: Growing
) -> None:
    """
    The same as from a classic session.
    """
    assert 300 == found["exported"]
    rows = visible(folder / "exported", "offset")
    assert store.offsets == [row["offset"] for row in rows]


def test_a_compaction_writes_the_same_bytes(
    found: dict[str, Any], folder: Path, compactable: Path
) -> None:
    """
    As the same tasks in one process.
    """
    done = compact(LocalJobs(), compactable, folder / "here", CHOICE)
    assert digest(folder / "here") == digest(folder / "compacted")
    assert sum(queue.records for queue in done.queues) == found["surveyed"]


def test_stores_are_verified(found: dict[str, Any]) -> None:
    """
    With a verdict for each segment.
    """
    assert ["UNSEALED"] == found["verdicts"]


def test_a_command_runs_on_a_server_without_java_here(
    address: str, found: dict[str, Any], compactable: Path
) -> None:
    """
    By the server's address as master.
    """
    words = ("spark", "compact", compactable, "--master", address, "--json")
    done = _client("pystore", *words)

    assert 0 == done.returncode, done.stderr
    queues = json.loads(done.stdout)["queues"]
    assert found["surveyed"] == sum(one["keptRecords"] for one in queues)
