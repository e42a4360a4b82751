"""
The speed and the cost of replication.

Master and slaves are processes of their own with real stores, on loopback.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from backlogs import BLOCK, Backlog, bare_link, catch_up, make_backlog
from bare_link import PIECES
from child import Child
from contest import Contender, Contest, Figure, Timed, measure, ratios
from machine import load
from table import Table
from tls_files import VARIABLE, make_files

if TYPE_CHECKING:
    from conftest import Sizes
    from pytest_benchmark.fixture import BenchmarkFixture

OLD_BUILD = os.environ.get("OLD_BUILD", "")
"""A checkout of 7f377bd with its core built in place."""

THREADS = 64
WINDOW = 32
SLAVES = 16
ROCKETMQ_BLOCK = 32 << 10
_KIB, _MIB, _MICROSECOND, _MILLISECOND = 2**10, 2**20, 1e-6, 1e-3


@pytest.fixture(scope="module")
def backlog(place: Path, sizes: Sizes) -> Iterator[Backlog]:
    """
    Of the size of large contests, in the page cache.
    """
    root = place / "backlog"
    yield make_backlog(root, sizes.total, sizes.segment)
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def small_backlog(place: Path, sizes: Sizes) -> Iterator[Backlog]:
    """
    A sixteenth of it.
    """
    root = place / "small-backlog"
    yield make_backlog(root, sizes.total // SLAVES, max(sizes.segment // 4, 4 * _MIB))
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def best_piece(backlog: Backlog, place: Path) -> int:
    """
    The piece with which the bare link is fastest today.
    """
    numbers = iter(range(len(PIECES)))

    def fresh() -> Path:
        root = place / f"bare-{next(numbers)}"
        root.mkdir()
        return root

    taken = {}
    for piece in PIECES:
        taken[piece] = measure(bare_link(fresh, backlog, piece))
        for root in place.glob("bare-*"):
            shutil.rmtree(root)
    return min(taken, key=lambda piece: taken[piece])


@pytest.mark.benchmark(group="catch-up")
@pytest.mark.parametrize(
    ("block_bytes", "least"),
    [(BLOCK, 0.70), (ROCKETMQ_BLOCK, 0.50)],
    ids=["frames=256k", "frames=32k"],
)
def test_a_slave_catches_up(
    block_bytes: int,
    least: float,
    contest: Contest,
    folder: Callable[[], Path],
    backlog: Backlog,
    best_piece: int,
    table: Table,
) -> None:
    """
    Timed: a new replica gets a backlog that is in the master's page cache, every
    record's checksum checked on arrival, not waiting for the disk. The limit moves
    as many bytes and looks at none of them.
    """
    limits = {"bare link": bare_link(folder, backlog, best_piece)}

    taken = contest.hold(catch_up(folder, backlog, block_bytes), limits)

    values = {
        name: f"{seconds.scaled(backlog.end_offset / 1e9).median:.2f} GB/s"
        for name, seconds in taken.items()
    }
    table.at_least(
        f"catch-up, frames of {block_bytes // _KIB} KiB, of a bare `sendfile` and "
        "`pwrite`",
        least,
        ratios(taken["bare link"], taken["pystore"]),
        {"best piece": f"{best_piece // _KIB} KiB", **values},
    )


@pytest.mark.benchmark(group="catch-up over TLS")
def test_a_slave_catches_up_over_tls(
    contest: Contest,
    folder: Callable[[], Path],
    backlog: Backlog,
    table: Table,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    Timed as without TLS. The limit is the standard library's `ssl` over one socket.
    """
    files = tmp_path / "tls"
    make_files(files)
    monkeypatch.setenv(VARIABLE, str(files))
    limits = {"bare ssl": bare_link(folder, backlog, BLOCK)}

    taken = contest.hold(catch_up(folder, backlog, BLOCK), limits)

    values = {
        name: f"{seconds.scaled(backlog.end_offset / 1e9).median:.2f} GB/s"
        for name, seconds in taken.items()
    }
    table.at_least(
        "catch-up over TLS, of a bare `ssl` pipe",
        0.70,
        ratios(taken["bare ssl"], taken["pystore"]),
        values,
    )


@contextmanager
def _pair(folder: Callable[[], Path], segment: int, build: str = "") -> Iterator[Child]:
    """
    A master with one slave that is in the set, of this build or of another one.
    """
    root = folder()
    store = root / "master"
    with (
        Child("master_child.py", store, segment, BLOCK, build=build) as master,
        Child("slave_child.py", root, segment, 1, build=build) as slave,
    ):
        slave.call("catch_up", master.call("address"), 0)
        assert master.call("in_sync", 2) == 2
        yield master
        slave.call("leave")


@contextmanager
def _alone(folder: Callable[[], Path], segment: int) -> Iterator[Child]:
    with Child("master_child.py", folder() / "master", segment, BLOCK) as master:
        yield master


def _appends(
    stage: Callable[[Callable[[], Path], int], object],
    folder: Callable[[], Path],
    segment: int,
    ack: str,
    records: int,
    window: int = 1,
) -> Contender:
    """
    Timed: appends of threads from the first to the last ack.
    """

    @contextmanager
    def contend() -> Iterator[Timed]:
        with stage(folder, segment) as master:  # type: ignore[attr-defined]
            master.call("append", ack, THREADS, THREADS)  # segments, threads, pages
            yield lambda: master.call("append", ack, THREADS, records, window)

    return contend


@pytest.mark.benchmark(group="appends with all acks")
def test_appends_that_wait_for_a_slave_keep_half_of_the_rate(
    contest: Contest, folder: Callable[[], Path], sizes: Sizes, table: Table
) -> None:
    """
    Timed: 64 threads append messages of 1 KiB with the ack `all`. Each thread has a
    window of pending appends, and reads the result of each. For comparison: the same
    with the ack `leader`, with the slave following and without it; and with a window of
    one, where a thread sleeps and is woken for every message.
    """
    step = THREADS * WINDOW
    records = -(-sizes.appends // step) * step
    segment = sizes.segment
    limits = {
        "leader": _appends(_pair, folder, segment, "leader", records),
        "leader, no slave": _appends(_alone, folder, segment, "leader", records),
        "`all`, one by one": _appends(_pair, folder, segment, "all", records),
    }

    ours = _appends(_pair, folder, segment, "all", records, WINDOW)
    taken = contest.hold(ours, limits)

    table.at_least(
        f"`all`, 1 slave, 1 KiB, {THREADS} threads with {WINDOW} pending each, of "
        "the rate of `leader`",
        0.50,
        ratios(taken["leader"], taken["pystore"]),
        {
            name: f"{seconds.scaled(records).median:,.0f}/s"
            for name, seconds in taken.items()
        },
    )
    table.note(
        "the same with 1 pending each",
        ratios(taken["leader"], taken["`all`, one by one"]),
        {},
    )


def _awaits(
    folder: Callable[[], Path], segment: int, ack: str, records: int
) -> Contender:
    """
    Timed: appends of coroutines from the first to the last ack.
    """

    @contextmanager
    def contend() -> Iterator[Timed]:
        with _pair(folder, segment) as master:
            master.call("await_appends", ack, THREADS, THREADS)
            yield lambda: master.call("await_appends", ack, THREADS, records)

    return contend


@pytest.mark.benchmark(group="acks without a thread each")
def test_coroutines_that_await_a_slave_keep_half_of_the_rate(
    contest: Contest, folder: Callable[[], Path], sizes: Sizes, table: Table
) -> None:
    """
    Timed: 64 coroutines append messages of 1 KiB with the ack `all`, and each awaits
    its append before the next one. The limit: the same with the ack `leader`, with the
    slave following. For comparison: 64 threads that append to the log alone, where
    nothing is awaited, and 64 threads with the ack `all`.
    """
    records = -(-sizes.appends // THREADS) * THREADS
    segment = sizes.segment
    limits = {
        "leader": _awaits(folder, segment, "leader", records),
        "leader, threads": _appends(_pair, folder, segment, "leader", records),
        "`all`, threads": _appends(_pair, folder, segment, "all", records),
    }

    taken = contest.hold(_awaits(folder, segment, "all", records), limits)

    table.at_least(
        f"`all`, 1 slave, 1 KiB, {THREADS} coroutines with 1 pending each, of the rate "
        "of `leader`",
        0.50,
        ratios(taken["leader"], taken["pystore"]),
        {
            name: f"{seconds.scaled(records).median:,.0f}/s"
            for name, seconds in taken.items()
        },
    )
    table.note(
        "the same, of the rate of 64 threads with the ack `leader` on the log alone",
        ratios(taken["leader, threads"], taken["pystore"]),
        {},
    )


def _added_share(seen: list[tuple[float, list[float], list[float]]]) -> Figure:
    return Figure(
        tuple((shared[0] - alone[0]) / trips for trips, alone, shared in seen)
    )


@pytest.mark.benchmark(group="latency of all acks")
def test_an_ack_of_all_comes_soon(
    benchmark: BenchmarkFixture,
    folder: Callable[[], Path],
    sizes: Sizes,
    table: Table,
) -> None:
    """
    Timed: one thread appends messages of 1 KiB, each when the set holds the one
    before; the same with the ack of the leader is taken off. The limit is two bare
    round trips on loopback, each with one hop between threads (`bare_round_trips.py`).
    """
    records = 10 * sizes.syncs
    builds = [*filter(None, [OLD_BUILD]), ""]
    seen: dict[str, list[tuple[float, list[float], list[float]]]] = {
        build: [] for build in builds
    }
    root = folder()
    with ExitStack() as stack:
        bare = stack.enter_context(Child("bare_round_trips.py", _KIB))
        masters: dict[str, Child] = {}
        for number, build in enumerate(builds):
            place = root / f"{number}"
            place.mkdir()
            masters[build] = stack.enter_context(
                _pair(lambda place=place: place, sizes.segment, build)  # type: ignore[misc]
            )
            masters[build].call("latencies", "all", 64)

        def run() -> None:
            for build, master in masters.items():
                trips, _ = bare.call("latencies", records)
                alone = master.call("latencies", "leader", records)
                shared = master.call("latencies", "all", records)
                seen[build].append((trips, alone, shared))

        benchmark.pedantic(run, rounds=sizes.rounds)
    mine = seen[""]
    share = _added_share(mine)
    trips_us = Figure(tuple(trips / _MICROSECOND for trips, _, _ in mine)).median
    what = (
        "latency that `all` adds to `leader`, of two bare round trips with one thread "
        "hop each"
    )
    values = {"bare": f"{trips_us:.0f} us", "load": load()}
    table.note(what, share, values)
    if OLD_BUILD:
        old = _added_share(seen[OLD_BUILD])
        values = {"7f377bd": f"{old.median * 100:.0f} %", "load": load()}
        ratio = ratios(share, old)
        table.at_most(f"{what}, of the ratio of 7f377bd", 0.7, ratio, "times", values)
    for number, (name, most) in enumerate((("median", 150), ("99 of 100", 1000))):
        added = [shared[number] - alone[number] for _, alone, shared in mine]
        table.at_most(
            f"latency that `all` adds to `leader`, 1 slave, 1 KiB, 1 thread, {name}",
            most,
            Figure(tuple(seconds / _MICROSECOND for seconds in added)),
            "us",
            {"`leader`": f"{mine[-1][1][number] / _MICROSECOND:.1f} us"},
        )


def _serve_many(
    folder: Callable[[], Path], backlog: Backlog, slaves: int
) -> tuple[float, int]:
    """
    Returns the master's seconds of processor for each byte that it sent, and by how
    many bytes its memory grew for each link.
    """
    with (
        backlog.master() as master,
        Child("slave_child.py", folder(), backlog.segment, slaves) as followers,
    ):
        address = master.call("address")
        memory, before = master.call("memory"), master.call("processor")
        followers.call("catch_up", address, backlog.end_offset)
        taken = master.call("processor") - before
        grown = master.call("memory") - memory
        followers.call("leave")
    return taken / (backlog.end_offset * slaves), grown // slaves


@pytest.mark.benchmark(group="many slaves")
def test_sixteen_slaves_cost_sixteen_times_one(
    benchmark: BenchmarkFixture,
    folder: Callable[[], Path],
    small_backlog: Backlog,
    sizes: Sizes,
    is_smoke: bool,
    table: Table,
) -> None:
    """
    Counted: the master's processor time for each byte that it sends to one slave
    and to sixteen at once, and its memory for each of their links.
    """
    slaves = 4 if is_smoke else SLAVES
    costs: list[tuple[float, float]] = []
    memory: list[float] = []

    def run() -> None:
        one, _ = _serve_many(folder, small_backlog, 1)
        many, grown = _serve_many(folder, small_backlog, slaves)
        costs.append((one, many))
        memory.append(grown / _MIB)

    benchmark.pedantic(run, rounds=sizes.rounds)

    table.at_most(
        f"processor time of a master per byte, {slaves} slaves, of that with 1",
        1.3,
        Figure(tuple(many / one for one, many in costs)),
        "times",
        {
            "1 slave": f"{costs[-1][0] * 1e9:.2f} s/GB",
            f"{slaves} slaves": f"{costs[-1][1] * 1e9:.2f} s/GB",
        },
    )
    table.at_most(
        f"memory of a master for each of {slaves} links",
        2,
        Figure(tuple(memory)),
        "MiB",
        {},
    )


@pytest.mark.benchmark(group="a link's memory at the slave")
def test_a_link_takes_little_memory_at_the_slave(
    benchmark: BenchmarkFixture,
    folder: Callable[[], Path],
    small_backlog: Backlog,
    sizes: Sizes,
    table: Table,
) -> None:
    """
    Counted: the growth of a slave's memory, beyond mapped files, from before it
    dials to the end of a catch-up.
    """
    grown: list[float] = []

    def run() -> None:
        with (
            small_backlog.master() as master,
            Child("slave_child.py", folder(), small_backlog.segment, 1) as slave,
        ):
            size = slave.call("grown", master.call("address"), small_backlog.end_offset)
            grown.append(size / _MIB)
            slave.call("leave")

    benchmark.pedantic(run, rounds=sizes.rounds)

    table.at_most("memory of a slave for its link", 2, Figure(tuple(grown)), "MiB", {})


@pytest.mark.benchmark(group="reconnect")
def test_a_slave_that_has_all_counts_at_once(
    benchmark: BenchmarkFixture,
    folder: Callable[[], Path],
    small_backlog: Backlog,
    sizes: Sizes,
    table: Table,
) -> None:
    """
    Timed: from a slave's dialling to the master's knowledge that it holds all.
    """
    taken: list[float] = []
    with ExitStack() as stack:
        master = stack.enter_context(small_backlog.master())
        slave = stack.enter_context(
            Child("slave_child.py", folder(), small_backlog.segment, 1)
        )
        address, end = master.call("address"), small_backlog.end_offset
        slave.call("catch_up", address, end)

        def run() -> None:
            slave.call("leave")
            master.call("without_links")
            master.send("caught_up", 1)
            slave.call("catch_up", address, end)
            taken.append(master.answer() - slave.call("dialled"))

        benchmark.pedantic(run, rounds=4 * sizes.rounds + 1)
        slave.call("leave")
    table.at_most(
        "reconnect of a slave that has all, until it counts as caught up",
        100,
        Figure(tuple(seconds / _MILLISECOND for seconds in taken)),
        "ms",
        {},
    )
