"""
The speed of verification on Spark, against the command and the obvious jobs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import spark_rivals
from contest import Contender, Contest, Figure, Timed, measure, ratios
from large_stores import Stores
from load import Load
from machine import warm_cache
from own_jvm import bench_session
from spark_child import verifying_session
from spark_rivals import binary_file_job, parallelize_job
from table import Table
from writers import WAYS

from pystore.spark.verify.executors import RunTasks, on_spark
from pystore.spark.verify.run import verify_stores
from pystore.store.commit_log import CommitLog

if TYPE_CHECKING:
    from conftest import Sizes
    from pyspark.sql import SparkSession
    from pytest_benchmark.fixture import BenchmarkFixture

_STORES = 8
_TURNS = 8
_RIVAL_BYTES = 1 << 30
_OLD_BUILD = os.environ.get("OLD_BUILD", "")
"""A checkout of 7f377bd with its core built in place: also a limit, if it is given."""


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    """
    Two workers, and room for a rival that takes whole files into the JVM.
    """
    with bench_session("local[2]", {"spark.driver.memory": "4g"}) as session:
        session.sparkContext.addPyFile(spark_rivals.__file__)
        yield session


@pytest.fixture(scope="module")
def linked(stores: Stores) -> Iterator[list[Path]]:
    """
    Stores that share their segments, so that all of them fit into the cache.
    """
    yield from _linked(stores, stores.closed)


@pytest.fixture(scope="module")
def queued(stores: Stores) -> Iterator[list[Path]]:
    """
    The same with consume queues.
    """
    yield from _linked(stores, stores.queued)


def _linked(stores: Stores, store: Path) -> Iterator[list[Path]]:
    roots = [stores.root / f"{store.name}{number}" for number in range(_STORES)]
    for root in roots:
        skip = shutil.ignore_patterns("commitlog")
        shutil.copytree(store, root, ignore=skip)
        (root / "commitlog").mkdir()
        for path in stores.segments(store):
            os.link(path, root / "commitlog" / path.name)
    warm_cache(stores.segments(store))
    yield roots
    for root in roots:
        shutil.rmtree(root)


@pytest.fixture(scope="module")
def pieces(stores: Stores, sizes: Sizes) -> Iterator[Path]:
    """
    The bytes of a part of the store, in files that a row of Spark can hold.
    """
    folder = stores.root / "pieces"
    folder.mkdir()
    load = Load.of(min(_RIVAL_BYTES, stores.load.body_bytes), stores.load.batch)
    with CommitLog(folder / "store", segment_size=min(1 << 26, sizes.segment)) as log:
        WAYS["batch"](log, load)
    yield folder / "store" / "commitlog"
    shutil.rmtree(folder)


def _log_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def _command(roots: Sequence[Path], jobs: int, build: str = "") -> None:
    command = [sys.executable, "-m", "pystore", "verify", "--jobs", str(jobs)]
    path = build or os.pathsep.join(filter(None, sys.path))
    environment = os.environ | {"PYTHONPATH": path}
    subprocess.run(
        [*command, *roots], env=environment, check=True, stdout=subprocess.DEVNULL
    )


def _warm(run: Callable[[], None]) -> Contender:
    @contextmanager
    def contend() -> Iterator[Timed]:
        yield run

    return contend


def _verify(run: RunTasks, roots: Sequence[Path], replicas: str) -> None:
    found = verify_stores(run, [str(root) for root in roots], replicas=replicas)
    assert not any(one.is_bad for one in found.verdicts)


@pytest.mark.benchmark(group="verify on Spark, cache warm, local[2]")
@pytest.mark.parametrize("replicas", ["none", "all"])
def test_verifying_on_spark_is_near_the_command_and_far_from_the_obvious(
    session: SparkSession,
    linked: list[Path],
    pieces: Path,
    contest: Contest,
    table: Table,
    stores: Stores,
    replicas: str,
) -> None:
    """
    Timed: the job over 8 stores that share their segments, in a session that ran
    before; the limit is the command with 2 jobs, and the rivals check a part.
    """
    log_bytes = _STORES * stores.load.body_bytes
    part = _log_bytes(pieces)
    paths = sorted(pieces.iterdir())
    _verify(on_spark(session), linked, replicas)
    limits = {
        "command": _warm(lambda: _command(linked, 2)),
        "parallelize": _warm(lambda: _ran(parallelize_job(session, paths))),
        "binaryFile": _warm(lambda: _ran(binary_file_job(session, pieces))),
    }

    taken = contest.hold(
        _warm(lambda: _verify(on_spark(session), linked, replicas)), limits
    )

    amounts = dict.fromkeys(("command", "pystore"), log_bytes)
    rates = {
        name: f"{t.scaled(amounts.get(name, part)).median / 1e9:.2f} GB/s"
        for name, t in taken.items()
    }
    ratio = ratios(taken["command"], taken["pystore"])
    if replicas == "all":
        what = "`spark verify`, replicas compared, of `verify --jobs 2`"
        table.at_least(what, 0.70, ratio, rates)
        return
    table.at_least("`spark verify`, of `verify --jobs 2`", 0.70, ratio, rates)
    for name, least in (("parallelize", 3.0), ("binaryFile", 15.0)):
        what = f"`spark verify`, of an obvious `{name}` job"
        found = ratios(taken[name], taken["pystore"], log_bytes / part)
        table.at_least(what, least, found, rates)


@pytest.mark.benchmark(group="verify on Spark, with queues, local[2]")
@pytest.mark.parametrize("build", ["", *filter(None, [_OLD_BUILD])])
def test_comparing_replicas_and_queues_on_spark_is_near_the_command(
    session: SparkSession,
    queued: list[Path],
    contest: Contest,
    table: Table,
    stores: Stores,
    build: str,
) -> None:
    """
    Timed: the job over 8 stores with consume queues; the limit is the command with 2
    jobs, of this build or of 7f377bd.
    """
    run = on_spark(session)
    _verify(run, queued, "all")
    limits = {"command": _warm(lambda: _command(queued, 2, build))}

    taken = contest.hold(_warm(lambda: _verify(run, queued, "all")), limits)

    log_bytes = _STORES * stores.load.body_bytes
    rates = {
        name: f"{one.scaled(log_bytes).median / 1e9:.2f} GB/s"
        for name, one in taken.items()
    }
    whose = " of 7f377bd" if build else ""
    what = f"`spark verify`, replicas and queues, of `verify --jobs 2`{whose}"
    table.at_least(what, 0.80, ratios(taken["command"], taken["pystore"]), rates)


def _ran(records: int) -> None:
    assert records > 0


@pytest.mark.benchmark(group="verify on Spark, one worker and two")
def test_verifying_on_spark_scales_as_the_command_does(
    linked: list[Path], benchmark: BenchmarkFixture, table: Table, sizes: Sizes
) -> None:
    """
    Timed: the same job in a session with one worker and in one with two, which both
    ran it before, beside the command with one job and with two. The first one
    changes with each turn.
    """
    roots = linked[: _STORES // 2]
    taken: dict[str, list[float]] = {}
    with verifying_session(1, roots) as one, verifying_session(2, roots) as two:
        runs = {
            "one job": lambda: _command(roots, 1),
            "two jobs": lambda: _command(roots, 2),
            "one worker": one,
            "two workers": two,
        }

        def turn() -> None:
            names = list(runs)
            is_back = len(taken.get(names[0], ())) % 2
            for name in reversed(names) if is_back else names:
                seconds = measure(_warm(runs[name]))
                taken.setdefault(name, []).append(seconds)

        benchmark.pedantic(turn, rounds=min(_TURNS, 4 * sizes.rounds))

    figures = {name: Figure(tuple(values)) for name, values in taken.items()}
    command = ratios(figures["one job"], figures["two jobs"])
    ours = ratios(figures["one worker"], figures["two workers"])
    table.at_least(
        "`spark verify`, 1 to 2 workers, of `verify --jobs 1` to `2`",
        1.0,
        Figure(tuple(a / b for a, b in zip(ours.values, command.values, strict=True))),
        {
            "command": f"{command.median:.2f}x",
            "job": f"{ours.median:.2f}x",
            **{name: f"{figure.median:.2f} s" for name, figure in figures.items()},
        },
    )
