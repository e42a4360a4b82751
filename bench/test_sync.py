"""
How fast records get onto the disk one by one, alone and with company.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from contest import Contender, Contest, Figure, Timed, ratios
from load import Load
from loops import sync_loop, threads
from table import Table

from pystore.log import CommitLog

if TYPE_CHECKING:
    from conftest import Sizes

THREADS = 64


def _rates(taken: dict[str, Figure], records: dict[str, int]) -> dict[str, str]:
    return {
        name: f"{seconds.scaled(records[name]).median:,.0f}/s"
        for name, seconds in taken.items()
    }


def _python(
    folder: Callable[[], Path], count: int, records: int, segment: int
) -> Contender:
    """
    Synchronous appends from threads in Python.
    """

    @contextmanager
    def contend() -> Iterator[Timed]:
        message = Load(1, 1).messages[0]
        with CommitLog(folder(), segment_size=segment) as log:
            log.append(message, "leader-synced")  # the first makes the segment
            gate = threading.Barrier(count + 1)

            def work() -> None:
                append = log.append
                gate.wait()
                for _ in range(records // count):
                    append(message, "leader-synced")

            workers = [threading.Thread(target=work) for _ in range(count)]
            for worker in workers:
                worker.start()

            def run() -> None:
                gate.wait()
                for worker in workers:
                    worker.join()

            yield run
            assert log.synced_offset == log.end_offset

    return contend


def _record_size(folder: Callable[[], Path]) -> int:
    with CommitLog(folder()) as log:
        found = log.append(Load(1, 1).messages[0])
    return found.end - found.offset


@pytest.mark.benchmark(group="synchronous appends, 1 thread")
def test_a_synchronous_append_costs_a_write_and_a_sync(
    quick_contest: Contest, folder: Callable[[], Path], sizes: Sizes, table: Table
) -> None:
    """
    Timed: appends of one message, each on disk before the next. The limit writes
    and syncs as many bytes each time, into a file that was allocated, too.
    """
    records = sizes.syncs
    size = _record_size(folder)
    limits = {
        "bare loop": sync_loop(folder, records, size, sizes.segment),
        "from C": threads(folder, 1, records, sizes.segment),
    }

    taken = quick_contest.hold(_python(folder, 1, records, sizes.segment), limits)

    table.at_least(
        "synchronous append, 1 thread, of a bare `pwrite` + `fdatasync` loop",
        0.90,
        ratios(taken["bare loop"], taken["pystore"]),
        _rates(taken, dict.fromkeys(taken, records)),
    )


@pytest.mark.benchmark(group="synchronous appends, 64 threads")
@pytest.mark.parametrize(
    ("language", "contender", "least"),
    [("C", threads, 15.0), ("Python", _python, 10.0)],
    ids=["threads=64-in=c", "threads=64-in=python"],
)
def test_one_sync_serves_all_who_wait(
    language: str,
    contender: Callable[[Callable[[], Path], int, int, int], Contender],
    least: float,
    quick_contest: Contest,
    folder: Callable[[], Path],
    sizes: Sizes,
    table: Table,
) -> None:
    """
    Timed: from the first append of 64 threads to the last answer; the limit is
    one thread alone.
    """
    alone, together = sizes.syncs, 16 * sizes.syncs
    records = {"1 thread": alone, "pystore": together}
    limit = contender(folder, 1, alone, sizes.segment)
    ours = contender(folder, THREADS, together, sizes.segment)

    taken = quick_contest.hold(ours, {"1 thread": limit})

    factor = together / alone
    rates = _rates(taken, records)
    table.at_least(
        f"synchronous append, 64 {language} threads, of the 1-thread rate",
        least,
        ratios(taken["1 thread"], taken["pystore"], factor),
        {"1 thread": rates["1 thread"], "64 threads": rates["pystore"]},
    )
