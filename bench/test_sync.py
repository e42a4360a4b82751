"""
The speed of synchronous appends, by one thread and by many.
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

from pystore.store.commit_log import CommitLog

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


def _handed_lock(
    _folder: Callable[[], Path], records: int, _size: int, _segment: int
) -> Contender:
    """
    Threads in Python that wake one another in a ring and do nothing else: the limit of
    switches of the interpreter.
    """

    @contextmanager
    def contend() -> Iterator[Timed]:
        locks = [threading.Lock() for _ in range(THREADS)]

        def work(own: threading.Lock, following: threading.Lock) -> None:
            for _ in range(records // THREADS):
                own.acquire()
                following.release()

        for lock in locks:
            lock.acquire()
        ring = zip(locks, [*locks[1:], locks[0]], strict=True)
        workers = [threading.Thread(target=work, args=pair) for pair in ring]
        for worker in workers:
            worker.start()

        def run() -> None:
            locks[0].release()
            for worker in workers:
                worker.join()

        yield run

    return contend


def _shared_syncs(
    folder: Callable[[], Path], records: int, size: int, segment: int
) -> Contender:
    """
    A bare loop that writes and syncs half as many records at once as threads wait.
    """
    together = THREADS // 2
    return sync_loop(folder, records // together, size * together, segment)


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
    ("language", "contender", "least", "limit"),
    [
        ("C", threads, 15.0, ("bare loop, 32 records a sync", _shared_syncs)),
        ("Python", _python, 10.0, ("64 threads that pass a lock on", _handed_lock)),
    ],
    ids=["threads=64-in=c", "threads=64-in=python"],
)
def test_one_sync_serves_all_who_wait(
    language: str,
    contender: Callable[[Callable[[], Path], int, int, int], Contender],
    least: float,
    limit: tuple[str, Callable[[Callable[[], Path], int, int, int], Contender]],
    quick_contest: Contest,
    folder: Callable[[], Path],
    sizes: Sizes,
    table: Table,
) -> None:
    """
    Timed: from the first append of 64 threads to the last answer, beside one thread
    alone; and what the disk, or the interpreter, can do at most.
    """
    alone, together = sizes.syncs, 16 * sizes.syncs
    name, make_limit = limit
    records = {"1 thread": alone, name: together, "pystore": together}
    limits = {
        "1 thread": contender(folder, 1, alone, sizes.segment),
        name: make_limit(folder, together, _record_size(folder), sizes.segment),
    }
    ours = contender(folder, THREADS, together, sizes.segment)

    taken = quick_contest.hold(ours, limits)

    factor = together / alone
    rates = _rates(taken, records)
    table.at_least(
        f"synchronous append, 64 {language} threads, of the 1-thread rate",
        least,
        ratios(taken["1 thread"], taken["pystore"], factor),
        {
            "1 thread": rates["1 thread"],
            "64 threads": rates["pystore"],
            name: rates[name],
        },
    )
