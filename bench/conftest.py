"""
Fixtures of the benches: sizes, folders, contests, and the table at the end.

``--benchmark-disable`` runs everything once with tiny sizes: a smoke test, whose
numbers are meaningless and not printed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from contest import Contest
from large_stores import Stores
from lib.samples import pytest_addoption, pytest_collection_modifyitems
from load import Load
from machine import describe, touch_memory
from table import Table

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

__all__ = ["pytest_addoption", "pytest_collection_modifyitems"]

_ROOT = Path(__file__).parents[1]
_TABLE = pytest.StashKey[Table]()
_KIB, _MIB, _GIB = 2**10, 2**20, 2**30


@dataclass(frozen=True)
class Sizes:
    """
    The sizes of a run.

    Attributes:
        rounds: pairs of a contest.
        total: bytes in bodies, of the large contests.
        curve: the same, of one point of a plot.
        segment: bytes of one segment.
        appends: single calls of one round.
        syncs: synchronous appends of one round, by one thread.
        batches: that are synced one by one.
        sparse: segments of the large sparse store.
        touched: bytes that are touched before anything is measured, and again
            before each run of a contest.
    """

    rounds: int
    total: int
    curve: int
    segment: int
    appends: int
    syncs: int
    batches: int
    sparse: int
    touched: int


REAL = Sizes(5, 4 * _GIB, _GIB // 2, _GIB, 100_000, 2000, 4000, 100, 5 * _GIB)
SMOKE = Sizes(1, 8 * _MIB, _MIB, 4 * _MIB, 100, 64, 4, 4, _MIB)


def pytest_configure(config: pytest.Config) -> None:
    """
    Makes the table of this run.
    """
    config.stash[_TABLE] = Table()


@pytest.fixture(scope="session")
def is_smoke(pytestconfig: pytest.Config) -> bool:
    """
    Whether this run is a smoke test, without meaningful numbers.
    """
    return bool(pytestconfig.getoption("benchmark_disable"))


@pytest.fixture(scope="session")
def sizes(is_smoke: bool) -> Sizes:
    """
    How much is measured; memory is touched before anything is.

    ``BENCH_BYTES`` makes the large contests smaller, where a disk is.
    """
    found = SMOKE if is_smoke else REAL
    if not is_smoke and "BENCH_BYTES" in os.environ:
        total = int(os.environ["BENCH_BYTES"])
        found = replace(found, total=total, curve=total // 8, touched=total * 5 // 4)
    touch_memory(found.touched)
    return found


@pytest.fixture(scope="session")
def table(pytestconfig: pytest.Config) -> Table:
    """
    The table of this run.
    """
    return pytestconfig.stash[_TABLE]


@pytest.fixture(scope="session")
def place() -> Iterator[Path]:
    """
    A folder on the disk that is measured: ``BENCH_DIR``, else ``build/bench``.
    """
    root = Path(os.environ.get("BENCH_DIR", _ROOT / "build" / "bench"))
    root.mkdir(parents=True, exist_ok=True)
    with _removed(root / f"run-{os.getpid()}") as mine:
        yield mine


@contextmanager
def _removed(folder: Path) -> Iterator[Path]:
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def folder(place: Path, is_smoke: bool) -> Iterator[Callable[[], Path]]:
    """
    Makes a new folder, and removes the one before: stores are large.
    """
    numbers = count()
    last: list[Path] = []

    def clear() -> None:
        while last:
            shutil.rmtree(last.pop())

    def make() -> Path:
        clear()
        if not is_smoke:
            os.sync()  # the rest of the deletion must not count for the next run
        last.append(place / f"store-{next(numbers)}")
        last[0].mkdir()
        return last[0]

    yield make
    clear()


@pytest.fixture
def contest(benchmark: BenchmarkFixture, sizes: Sizes) -> Contest:
    """
    The one contest of a bench.
    """
    return Contest(benchmark, sizes.rounds, sizes.touched)


@pytest.fixture
def quick_contest(benchmark: BenchmarkFixture, sizes: Sizes) -> Contest:
    """
    The same of runs that take less than a second and need no new memory: more
    pairs, because a neighbour's burst spoils short ones more often.
    """
    return Contest(benchmark, 4 * sizes.rounds + 1)


@pytest.fixture(scope="session")
def stores(place: Path, sizes: Sizes) -> Iterator[Stores]:
    """
    Large stores that several benches read.
    """
    with _removed(place / "stores") as root:
        yield Stores(root, Load.of(sizes.total, 1024), sizes.segment)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """
    Prints the table, and keeps what the plots are drawn of.
    """
    table = config.stash[_TABLE]
    if config.getoption("benchmark_disable") or not (table.rows or table.points):
        return
    machine = describe(_ROOT)
    table.save(_ROOT / "build" / "bench" / "points.json", machine)
    terminalreporter.write_sep("=", "promises")
    terminalreporter.write_line(table.render(machine))
