"""
The speed of a compaction on Spark, and the memory of its processes.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import pytest
from contest import Figure
from load import BODY_SIZE, TAG, TOPIC
from machine import warm_cache
from own_jvm import bench_session
from table import Table

from pystore.message.columns import gather_columns
from pystore.spark.compact.jobs import SparkJobs
from pystore.spark.compact.plan import CompactionChoice
from pystore.spark.compact.run import compact
from pystore.store.commit_log import CommitLog

if TYPE_CHECKING:
    from conftest import Sizes
    from pyspark.sql import SparkSession
    from pytest_benchmark.fixture import BenchmarkFixture

_BATCH = 1024
_QUEUES = 4
_BYTES_PER_KEY = 4295  # a million keys in 4 GiB of bodies
_RATE = 150e6
_MEMORY_MIB = 2048


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    """
    Two workers, as the command has them.
    """
    with bench_session("local[2]") as session:
        yield session


@pytest.fixture(scope="module")
def keyed(place: Path, sizes: Sizes) -> Iterator[tuple[Path, int]]:
    """
    A store whose records have random ones of many keys, and how many records.
    """
    root = place / "keyed"
    keys = max(1, sizes.total // _BYTES_PER_KEY)
    chance = np.random.default_rng(1)
    bodies = chance.integers(0, 256, (_BATCH, BODY_SIZE), np.uint8)
    batches = sizes.total // BODY_SIZE // _BATCH
    with CommitLog(root, segment_size=sizes.segment) as log:
        for _ in range(batches):
            numbers = chance.integers(0, keys, _BATCH)
            columns = gather_columns(
                TOPIC,
                bodies,
                keys=np.strings.mod(np.full(_BATCH, "key-%08d"), numbers).astype("S12"),
                tags=[TAG] * _BATCH,
                queue_ids=(numbers % _QUEUES).astype(np.int32),
            )
            log.append_columns(columns)
    warm_cache(sorted((root / "commitlog").iterdir()))
    yield root, batches * _BATCH
    shutil.rmtree(root)


def _below() -> Iterator[tuple[int, dict[str, str]]]:
    """
    Every process below this one, with its memory from /proc.
    """
    parents: dict[int, int] = {}
    found: dict[int, dict[str, str]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            text = Path(f"/proc/{name}/status").read_text(encoding="utf-8")
        except OSError:
            # It ended meanwhile.
            continue
        fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        parents[int(name)] = int(fields["PPid"])
        found[int(name)] = fields
    for pid, fields in found.items():
        above = parents.get(pid, 0)
        while above not in (0, os.getpid()):
            above = parents.get(above, 0)
        if above:
            yield pid, fields


@contextmanager
def _memory() -> Iterator[dict[str, int]]:
    """
    The largest resident size of a worker and of the JVM, in KiB, while it lasts.
    """
    most = {"worker": 0, "worker, anonymous": 0, "JVM": 0}
    is_over = threading.Event()

    def measure() -> None:
        while not is_over.wait(0.05):
            for _, fields in _below():
                is_java = fields["Name"].strip() == "java"
                names = {"JVM": "VmRSS"} if is_java else {}
                names = names or {"worker": "VmRSS", "worker, anonymous": "RssAnon"}
                for name, field in names.items():
                    size = int(fields.get(field, "0 kB").split()[0])
                    most[name] = max(most[name], size)

    thread = threading.Thread(target=measure)
    thread.start()
    try:
        yield most
    finally:
        is_over.set()
        thread.join()


@pytest.mark.benchmark(group="compaction on Spark, cache warm, local[2]")
def test_a_compaction_reads_150_mb_a_second(
    session: SparkSession,
    keyed: tuple[Path, int],
    folder: Callable[[], Path],
    sizes: Sizes,
    table: Table,
    benchmark: BenchmarkFixture,
) -> None:
    """
    Timed: a whole compaction into a new directory, with every sync, the first one in
    a new session included; the rate is that of the log's bytes.
    """
    root, records = keyed
    seconds: list[float] = []
    input_bytes = 0

    def run() -> None:
        nonlocal input_bytes
        into = folder()
        start = perf_counter()
        found = compact(SparkJobs(session), root, into, CompactionChoice())
        seconds.append(perf_counter() - start)
        input_bytes = found.plan.input_bytes
        assert records == sum(queue.count.records for queue in found.queues)
        assert sum(queue.keys for queue in found.queues) == sum(
            queue.records for queue in found.queues
        )

    with _memory() as most:
        benchmark.pedantic(run, rounds=min(3, sizes.rounds))

    rates = [input_bytes / one for one in seconds]
    sizes_text = {name: f"{size / 1024:.0f} MiB" for name, size in most.items()}
    benchmark.extra_info.update(most)
    table.at_least(
        "`spark compact`, a million keys, of 150 MB/s",
        1.0,
        Figure(tuple(rate / _RATE for rate in rates)),
        {
            "rate": f"{Figure(tuple(rates)).median / 1e6:.0f} MB/s",
            "first in the session": f"{rates[0] / 1e6:.0f} MB/s",
        },
    )
    table.at_most(
        "memory of one process of `spark compact`, mapped log included",
        _MEMORY_MIB,
        Figure((max(most.values()) / 1024,)),
        "MiB",
        sizes_text,
    )
