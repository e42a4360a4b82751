"""
The speed of reads: all records in order, and one at a time.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import TYPE_CHECKING

import numpy as np
import pytest
from contest import Figure
from large_stores import Stores
from load import BODY_SIZE, TOPIC
from table import Table

from pystore import arrow_reader
from pystore.bindings.ffi import NO_CHECK
from pystore.store.commit_log import CommitLog
from pystore.store.store import Store

if TYPE_CHECKING:
    from conftest import Sizes
    from pytest_benchmark.fixture import BenchmarkFixture

_ROWS = 8192


@pytest.mark.benchmark(group="sequential read, warm")
def test_headers_and_body_positions_are_read_by_columns(
    stores: Stores, sizes: Sizes, table: Table, benchmark: BenchmarkFixture
) -> None:
    """
    Timed: a scan of all records into numpy rows (headers, body positions), and the
    block of each piece borrowed, in a process that has read them before.
    """
    taken: list[float] = []
    with CommitLog(stores.closed, mode="r") as log:
        end = log.end_offset

        def run() -> None:
            start = perf_counter()
            count = size = 0
            for rows in log.scan(checks=NO_CHECK, rows=_ROWS):
                count += len(rows)
                size += int(rows["body_size"].sum())
            for block in log.blocks(0):
                size += not len(block.view)
            taken.append(count / (perf_counter() - start) / 1e6)
            assert count == stores.load.records
            assert size == stores.load.body_bytes

        benchmark.pedantic(run, rounds=sizes.rounds, warmup_rounds=1)
    rates = Figure(tuple(taken[-sizes.rounds :]))
    table.at_least(
        "sequential read, headers and body positions, of 10 million records/s",
        1.0,
        Figure(tuple(rate / 10 for rate in rates.values)),
        {
            "records": f"{rates.median:.1f} million/s",
            "log": f"{rates.median * 1e6 * end / stores.load.records / 1e9:.1f} GB/s",
            "new mapping": f"{taken[0]:.1f} million/s",
        },
    )


@pytest.mark.benchmark(group="dump")
def test_records_are_dumped_as_json(
    stores: Stores, sizes: Sizes, table: Table, benchmark: BenchmarkFixture
) -> None:
    """
    Timed: the command, from its start to its end; its lines go to ``/dev/null``.
    """
    command = [sys.executable, "-m", "pystore", "dump", str(stores.closed)]
    taken: list[float] = []

    def run() -> None:
        start = perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        taken.append(stores.load.records / (perf_counter() - start))

    benchmark.pedantic(run, rounds=sizes.rounds, warmup_rounds=1)
    rates = Figure(tuple(taken[-sizes.rounds :]))
    table.at_least(
        "`dump`, of 300 000 records/s",
        1.0,
        Figure(tuple(rate / 300_000 for rate in rates.values)),
        {
            "records": f"{rates.median:,.0f}/s",
            "in the store": f"{stores.load.records / 1e6:.1f} million",
        },
    )


@pytest.mark.benchmark(group="arrow_reader")
def test_all_columns_are_read_as_arrow_batches(
    stores: Stores, sizes: Sizes, table: Table, benchmark: BenchmarkFixture
) -> None:
    """
    Timed: every column with bodies, one thread, warm.
    """
    taken: list[float] = []
    size = sum(path.stat().st_size for path in stores.segments(stores.closed))

    def run() -> None:
        start = perf_counter()
        batches = arrow_reader(stores.closed, include_body=True)
        count = sum(batch.num_rows for batch in batches)
        taken.append(size / (perf_counter() - start) / 1e9)
        assert count == stores.load.records

    benchmark.pedantic(run, rounds=sizes.rounds, warmup_rounds=1)
    rates = Figure(tuple(taken[-sizes.rounds :]))
    table.at_least(
        "`arrow_reader`, all columns with bodies, of 1 GB/s of log",
        1.0,
        rates,
        {"log": f"{rates.median:.2f} GB/s"},
    )


@pytest.mark.parametrize("body_crc", [True, False], ids=["with CRC", "without CRC"])
@pytest.mark.benchmark(group="read one record by queue offset, warm")
def test_a_record_is_read_by_its_queue_offset(
    stores: Stores,
    sizes: Sizes,
    table: Table,
    benchmark: BenchmarkFixture,
    *,
    body_crc: bool,
) -> None:
    """
    Timed: each ``Store.read`` on its own, clock included, at random offsets of 4
    queues; a round's figure is the median of its reads. The first round reads
    through a new mapping; before the others the log is walked once.
    """
    medians: list[float] = []
    limits: list[float] = []
    with Store(stores.closed) as store:
        length = stores.load.records // 4
        chance = random.Random(1)
        queues = sorted((stores.closed / "consumequeue" / TOPIC / "0").iterdir())
        log = stores.segments(stores.closed)
        size = len(store.read(TOPIC, 0, 0).data)

        def run() -> None:
            wanted = [
                (chance.randrange(4), chance.randrange(length))
                for _ in range(sizes.appends)
            ]
            taken = np.empty(len(wanted), np.int64)
            read = store.read
            for call, (queue, offset) in enumerate(wanted):
                start = perf_counter_ns()
                record = read(TOPIC, queue, offset, body_crc=body_crc)
                taken[call] = perf_counter_ns() - start
            assert len(record.body) == BODY_SIZE
            medians.append(float(np.median(taken)) / 1e3)
            limits.append(_preads_us(queues[0], log[0], size, len(wanted)))

        run()
        store.log.scan(0).finish()
        benchmark.pedantic(run, rounds=sizes.rounds)
    table.at_most(
        "reading one record by (topic, queue, offset), random, warm"
        + ("" if body_crc else ", without the CRC of its body"),
        6 if body_crc else 5,
        Figure(tuple(medians[1:])),
        "us",
        {
            "an `os.pread` of each file": f"{Figure(tuple(limits[1:])).median:.2f} us",
            "new mapping": f"{medians[0]:.2f} us",
            "records": f"{stores.load.records / 1e6:.1f} million",
        },
    )


def _preads_us(queue: Path, segment: Path, size: int, calls: int) -> float:
    """
    The median of reading an entry and a record at random, and nothing more.
    """
    chance = random.Random(2)
    taken = np.empty(calls, np.int64)
    with queue.open("rb") as entries, segment.open("rb") as records:
        most = min(queue.stat().st_size // 20, segment.stat().st_size // size)
        first, second, pread = entries.fileno(), records.fileno(), os.pread
        for call, slot in enumerate(chance.choices(range(most), k=calls)):
            start = perf_counter_ns()
            pread(first, 20, slot * 20)
            pread(second, size, slot * size)
            taken[call] = perf_counter_ns() - start
    return float(np.median(taken)) / 1e3
