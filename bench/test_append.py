"""
The speed of appends in three ways, against the same work without Python.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING

import numpy as np
import pytest
from contest import Contest, Figure, ratios
from load import BODY_SIZE, Load
from loops import encode_loop, loop
from rivals import RIVALS, SYNCED_EACH, rival
from table import Table
from writers import WAYS, writer

from pystore.store.commit_log import CommitLog

if TYPE_CHECKING:
    from conftest import Sizes
    from pytest_benchmark.fixture import BenchmarkFixture

_PIECE = 64 * 1024


def _rate(seconds: Figure, size_bytes: int) -> str:
    return f"{seconds.scaled(size_bytes).median / 1e9:.2f} GB/s"


@pytest.mark.benchmark(group="append until durable")
@pytest.mark.parametrize(
    ("way", "batch", "of_c_loop", "of_bare_loop"),
    [("columns", 1024, 0.95, 0.85), ("batch", 64, 0.85, 0.70)],
    ids=["way=columns-record=1k-batch=1024", "way=batch-record=1k-batch=64"],
)
def test_append_is_near_the_same_work_without_python(
    way: str,
    batch: int,
    of_c_loop: float,
    of_bare_loop: float,
    contest: Contest,
    folder: Callable[[], Path],
    sizes: Sizes,
    table: Table,
    benchmark: BenchmarkFixture,
) -> None:
    """
    Timed: all appends into an empty store, with the segments they begin, and the
    sync at the end. The limits write as many bytes of records, segments included.
    """
    load = Load.of(sizes.total, batch)
    bodies = load.body_bytes
    record = _record_size(load, folder)
    segments = -(-load.records // (sizes.segment // record))
    # The bare loops need no records, but whole pieces.
    size = load.records * record // sizes.segment * sizes.segment or sizes.segment
    limits = {
        "C loop": encode_loop(folder, load, sizes.segment),
        "bare loop": loop("bare", folder, size, sizes.segment),
    }
    if way == "columns":
        limits["without early write-back"] = loop("late", folder, size, sizes.segment)
        limits["mapped"] = loop("mapped", folder, size, sizes.segment)
    ends: list[int] = []

    taken = contest.hold(writer(way, folder, load, sizes.segment, ends), limits)

    total = ends[0] if ends else segments * sizes.segment
    absolute = {
        name: _rate(seconds, total if name in ("pystore", "C loop") else size)
        for name, seconds in taken.items()
    }
    absolute["pystore, bodies alone"] = _rate(taken["pystore"], bodies)
    benchmark.extra_info.update(bytes=total, records=load.records, **absolute)
    if way == "columns":
        shares = {"bare loop": size / total, "C loop": 1.0}
        for name, share in shares.items():
            rate = taken[name].scaled(share * bodies).median / 1e6
            table.point("limits", name, load.batch, rate)
    what = f"`append_{way}`, batches of {batch}, of the "
    of_c = ratios(taken["C loop"], taken["pystore"])
    of_bare = ratios(taken["bare loop"], taken["pystore"], total / size)
    table.at_least(what + "C loop", of_c_loop, of_c, absolute)
    table.at_least(what + "bare loop", of_bare_loop, of_bare, absolute)


def _record_size(load: Load, folder: Callable[[], Path]) -> int:
    with CommitLog(folder()) as log:
        found = log.append(load.messages[0])
    return found.end - found.offset


@pytest.mark.benchmark(group="append of one message")
def test_append_of_one_message_takes_microseconds(
    folder: Callable[[], Path],
    sizes: Sizes,
    table: Table,
    benchmark: BenchmarkFixture,
) -> None:
    """
    Timed: each call of ``append`` on its own, clock included; a round's figure is
    the median of its calls.
    """
    medians: list[float] = []
    limits: list[float] = []
    record = bytes(_record_size(Load(1, 1), folder))
    with CommitLog(folder(), segment_size=sizes.segment) as log:
        message = Load(1, 1).messages[0]

        def run() -> None:
            taken = np.empty(sizes.appends, np.int64)
            append = log.append
            for call in range(sizes.appends):
                start = perf_counter_ns()
                append(message)
                taken[call] = perf_counter_ns() - start
            medians.append(float(np.median(taken)) / 1e3)
            limits.append(_pwrite_us(log.path / "bare", record, sizes.appends))

        benchmark.pedantic(run, rounds=sizes.rounds)
        benchmark.extra_info["medians_us"] = medians
        end = log.end_offset
    table.at_most(
        "`append` of one message, median",
        3,
        Figure(tuple(medians)),
        "us",
        {
            "`os.pwrite` of as many bytes": f"{Figure(tuple(limits)).median:.2f} us",
            "records written": f"{end / 2**20:.0f} MiB",
        },
    )


def _pwrite_us(path: Path, record: bytes, calls: int) -> float:
    """
    The median of single writes, one behind the other, into an allocated file.
    """
    taken = np.empty(calls, np.int64)
    file = os.open(path, os.O_CREAT | os.O_RDWR)
    try:
        os.posix_fallocate(file, 0, calls * len(record))
        pwrite = os.pwrite
        for call in range(calls):
            start = perf_counter_ns()
            pwrite(file, record, call * len(record))
            taken[call] = perf_counter_ns() - start
    finally:
        os.close(file)
        path.unlink()
    return float(np.median(taken)) / 1e3


BATCHES = (1, 4, 16, 64, 256, 1024)


@pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: f"record=1k-batch={batch}")
@pytest.mark.parametrize("way", [*WAYS, *RIVALS], ids=lambda way: f"way={way}")
def test_throughput_grows_with_the_batch(
    way: str,
    batch: int,
    folder: Callable[[], Path],
    sizes: Sizes,
    table: Table,
    benchmark: BenchmarkFixture,
) -> None:
    """
    Timed: storing the bodies until durable, as pystore and as rivals do. Rates
    count bodies alone.
    """
    benchmark.group = f"store 1 KiB bodies, batch={batch}"
    most = sizes.batches if way in SYNCED_EACH else 64 * sizes.batches
    load = Load.of(sizes.curve, batch, most)
    contender = (
        writer(way, folder, load, sizes.segment)
        if way in WAYS
        else rival(way, folder, load)
    )
    rounds = min(3, sizes.rounds)

    taken = Contest(benchmark, rounds, 2 * sizes.curve).hold(contender, {})

    rate = taken["pystore"].scaled(load.body_bytes).median / 1e6
    benchmark.extra_info.update(bytes=load.body_bytes, mb_per_s=rate)
    syncs = load.batches if way in SYNCED_EACH else 1
    benchmark.extra_info["syncs"] = syncs
    table.point("throughput", way, batch, rate)
    assert load.body_bytes == load.records * BODY_SIZE
