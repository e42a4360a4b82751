"""
The speed of checking a log: after a kill, and with a cold cache by the command.
"""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import pytest
from contest import Contender, Contest, Figure, Timed, ratios
from isal import isal_zlib
from large_stores import Stores, sparse_store
from machine import cached_share, drop_cache, warm_cache
from table import Table

from pystore.core.log_reader import LogReader
from pystore.recovery.survey import CHECKS
from pystore.store.commit_log import CommitLog

if TYPE_CHECKING:
    from conftest import Sizes
    from pytest_benchmark.fixture import BenchmarkFixture

_JOBS = 2


def _checksum(paths: list[Path], ends: list[int], *, is_warm: bool) -> Contender:
    """
    One pass of isal's CRC-32 over the mapped bytes of records.
    """

    @contextmanager
    def contend() -> Iterator[Timed]:
        with ExitStack() as stack:
            mapped = []
            for path in paths:
                file = stack.enter_context(path.open("rb"))
                mapped.append(
                    stack.enter_context(
                        mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
                    )
                )

            def run() -> None:
                for whole, end in zip(mapped, ends, strict=True):
                    with memoryview(whole) as view:
                        isal_zlib.crc32(view[:end])

            if is_warm:
                run()
            yield run

    return contend


def _recovery_scan(root: Path, end: int, *, is_warm: bool) -> Contender:
    """
    The scan of recovery, over all of a log.
    """

    @contextmanager
    def contend() -> Iterator[Timed]:
        with LogReader(root) as log:

            def run() -> None:
                found = log.scan(0, end, CHECKS).finish()
                assert found.offset == end, found

            if is_warm:
                run()
            yield run

    return contend


def _end_of(root: Path) -> int:
    with CommitLog(root, mode="r") as log:
        return log.end_offset


@pytest.mark.benchmark(group="recovery scan after a kill, cache warm")
@pytest.mark.parametrize(
    "is_warm", [False, True], ids=["mapping=new", "mapping=populated"]
)
def test_the_recovery_scan_is_near_one_checksum_pass(
    is_warm: bool, quick_contest: Contest, stores: Stores, table: Table
) -> None:
    """
    Timed: the scan that opening makes after SIGKILL, over all records; the limit
    is one pass of CRC-32 over the same bytes, mapped in the same way.
    """
    root = stores.killed
    end = _end_of(root)
    paths = stores.segments(root)
    warm_cache(paths)
    size = stores.segment
    ends = [min(size, end - number * size) for number in range(len(paths))]
    limits = {"isal": _checksum(paths, ends, is_warm=is_warm)}

    taken = quick_contest.hold(_recovery_scan(root, end, is_warm=is_warm), limits)

    table.at_least(
        "recovery scan, warm cache, "
        + ("mapping populated" if is_warm else "new mapping")
        + ", of one CRC-32 pass",
        0.80,
        ratios(taken["isal"], taken["pystore"]),
        {n: f"{t.scaled(end).median / 1e9:.1f} GB/s" for n, t in taken.items()},
    )


def _cold(run: Callable[[], None], paths: list[Path]) -> Contender:
    @contextmanager
    def contend() -> Iterator[Timed]:
        drop_cache(paths)
        assert cached_share(paths) < 0.01
        yield run

    return contend


def _verify(root: Path) -> None:
    """
    The command, as an operator runs it: the start of Python is timed, too.
    """
    command = [sys.executable, "-m", "pystore", "verify", "--jobs", str(_JOBS)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run(
        [*command, root], env=environment, check=True, stdout=subprocess.DEVNULL
    )


def _cat(paths: list[Path]) -> None:
    subprocess.run(["cat", *paths], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.benchmark(group="verify, cache cold, 2 jobs")
def test_verifying_is_as_fast_as_reading(
    contest: Contest, stores: Stores, table: Table
) -> None:
    """
    Timed: ``pystore verify`` of a store of which nothing is cached, by 2 jobs; the
    limit is ``cat`` of its files, also cold.
    """
    root = stores.closed
    paths = [path for path in root.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in paths)
    limits = {"cat": _cold(lambda: _cat(paths), paths)}

    taken = contest.hold(_cold(lambda: _verify(root), paths), limits)

    table.at_least(
        "`verify` of a cold store, 2 jobs, of `cat store > /dev/null`",
        1.0,
        ratios(taken["cat"], taken["pystore"]),
        {n: f"{t.scaled(size).median / 1e9:.2f} GB/s" for n, t in taken.items()},
    )


@pytest.mark.benchmark(group="open a store that was closed cleanly")
def test_opening_a_large_clean_store_is_instant(
    folder: Callable[[], Path],
    sizes: Sizes,
    table: Table,
    benchmark: BenchmarkFixture,
) -> None:
    """
    Timed: opening for writing a store of 100 segments of 1 GiB, sparse, until the
    first append could begin. Closing is not timed.
    """
    root = folder()
    sparse_store(root, sizes.sparse, sizes.segment)
    opened: list[CommitLog] = []
    taken: list[float] = []

    def close() -> tuple[tuple[()], dict[str, object]]:
        while opened:
            opened.pop().close()
        return (), {}

    def run() -> None:
        start = perf_counter()
        log = CommitLog(root)
        taken.append((perf_counter() - start) * 1e3)
        opened.append(log)

    benchmark.pedantic(run, setup=close, rounds=max(2, 2 * sizes.rounds))
    assert opened[0].recovery.is_clean
    close()

    whole = f"{sizes.sparse * sizes.segment / 2**30:.0f} GiB"
    table.at_most(
        f"opening a cleanly closed store of {whole}",
        50,
        Figure(tuple(taken)),
        "ms",
        {"segments": str(sizes.sparse)},
    )
