"""
The speed of reads: all records in order, and one at a time.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import TYPE_CHECKING

import numpy as np
import pytest
from contest import Figure
from large_stores import Stores
from load import BODY_SIZE, TOPIC
from table import Table

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


@pytest.mark.benchmark(group="read one record by queue offset, warm")
def test_a_record_is_read_by_its_queue_offset(
    stores: Stores, sizes: Sizes, table: Table, benchmark: BenchmarkFixture
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
                record = read(TOPIC, queue, offset)
                taken[call] = perf_counter_ns() - start
            assert len(record.body) == BODY_SIZE
            medians.append(float(np.median(taken)) / 1e3)
            limits.append(_preads_us(queues[0], log[0], size, len(wanted)))

        run()
        store.log.scan(0).finish()
        benchmark.pedantic(run, rounds=sizes.rounds)
    table.at_most(
        "reading one record by (topic, queue, offset), random, warm",
        5,
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
