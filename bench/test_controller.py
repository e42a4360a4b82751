"""
The time to replace a killed master, and the cost of a thousand sets for a controller.

Controllers and brokers are processes of their own, on loopback.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from broker_sets import BrokerSet
from child import Child
from contest import Contest, Figure, ratios
from controllers import Controller, controller, processor_s, until_served
from failover_set import FailoverSet
from interop import java_controllers, jvm
from machine import load
from many_sets import Decisions, write_sets
from table import Table

if TYPE_CHECKING:
    from conftest import Sizes
    from pytest_benchmark.fixture import BenchmarkFixture

FAILOVERS = 20
YOUNG_S = 15.0
BEATING_S = 10.0
BEATING_PARTS = 4
AT_ONCE = 100
MANY = 10_000
_MIB = 2**20


@contextmanager
def _rocketmq(folder: Path) -> Iterator[str]:
    """
    RocketMQ's controller of the kind that is its default; its address.
    """
    missing = jvm.missing_tools()
    if missing:
        pytest.skip(f"RocketMQ needs {', '.join(missing)}")
    jvm.fetch()
    with java_controllers.running(folder, ["dledger"]) as addresses:
        yield addresses["dledger"]


@pytest.mark.benchmark(group="failover")
def test_a_dead_master_is_replaced_as_soon_as_by_rocketmq(
    benchmark: BenchmarkFixture,
    folder: Callable[[], Path],
    is_smoke: bool,
    table: Table,
) -> None:
    """
    Timed: from the SIGKILL of a master until the other broker of its set was notified
    that it is master; then the killed broker starts again and joins. pystore's and
    RocketMQ's controllers take turns, with the same broker processes and default
    settings. The first failover of each is not counted: Java compiles, and a term of
    pystore that is younger than the longest lease replaces no master.
    """
    taken: dict[str, list[float]] = {}
    with ExitStack() as stack:
        root = folder()
        ours = stack.enter_context(controller(root / "records"))
        addresses = {"pystore": ours.address}
        if not is_smoke:
            addresses["RocketMQ"] = stack.enter_context(_rocketmq(root / "rocketmq"))
        sets = {
            name: stack.enter_context(FailoverSet(address, "mortal"))
            for name, address in addresses.items()
        }
        for name, one in sets.items():
            assert one.fail_over() < YOUNG_S
            taken[name] = []

        def run() -> None:
            names = list(sets) if len(taken["pystore"]) % 2 else list(sets)[::-1]
            for name in names:
                taken[name].append(sets[name].fail_over())

        benchmark.pedantic(run, rounds=1 if is_smoke else FAILOVERS)

    figures = {name: Figure(tuple(values)) for name, values in taken.items()}
    what = "SIGKILL of a master until the new one was notified"
    table.at_least(
        f"{what}, of RocketMQ's rate",
        1,
        ratios(figures.get("RocketMQ", figures["pystore"]), figures["pystore"]),
        {
            name: f"{figure.median:.3f} s ({figure.least:.3f} to {figure.most:.3f})"
            for name, figure in figures.items()
        },
    )
    worst = Figure((figures["pystore"].most,))
    table.at_most(f"{what}, worst of {FAILOVERS}", 1, worst, "s", {})


@pytest.mark.benchmark(group="failover")
@pytest.mark.parametrize(("count", "least"), [(2, 1), (3, 2)])
def test_a_set_acknowledges_all_soon_after_its_master_died_or_handed_over(
    count: int,
    least: int,
    benchmark: BenchmarkFixture,
    folder: Callable[[], Path],
    is_smoke: bool,
    table: Table,
) -> None:
    """
    Timed: from the SIGKILL of a master to the first `all` on another broker, and the
    longest time between two acks around a planned switch; processes with the default
    settings. A controller whose term is younger than a lease replaces no master without
    evidence, so the first failovers come later.
    """
    deaths: list[float] = []
    switches: list[float] = []
    with BrokerSet(folder(), count, least) as brokers:
        if not is_smoke:
            time.sleep(YOUNG_S)

        def run() -> None:
            deaths.append(brokers.fail_over())
            switches.append(brokers.switch())

        benchmark.pedantic(run, rounds=1 if is_smoke else FAILOVERS)
    who = f"set of {count}, minimum {least}"
    for what, values, least_s in (
        (f"SIGKILL of the master to the first all, {who}", deaths, 0.1),
        (f"gap of all in a planned switch, {who}", switches, 0.1),
    ):
        figure = Figure(tuple(values))
        told = {"worst": f"{figure.most:.3f} s", "best": f"{figure.least:.3f} s"}
        table.at_most(f"{what}, median", least_s, Figure((figure.median,)), "s", told)


class _Beating(NamedTuple):
    """
    Shares of a core for as many heartbeats in a second.
    """

    controller: float
    bare: float
    rate: float


def _beating(
    one: Controller, crowd: Child, bare_pid: int, others: Child, seconds: float
) -> _Beating:
    before = crowd.call("beats"), others.call("beats")
    used_s, bare_s = one.processor_s(), processor_s(bare_pid)
    began_s = time.perf_counter()
    time.sleep(seconds)
    taken_s = time.perf_counter() - began_s
    used_s, bare_s = one.processor_s() - used_s, processor_s(bare_pid) - bare_s
    beats = crowd.call("beats") - before[0]
    same = others.call("beats") - before[1]
    # A crowd that was delayed sends more of them later: the cost of the same number.
    bare_s *= beats / max(same, 1)
    return _Beating(used_s / taken_s, bare_s / taken_s, beats / taken_s)


@pytest.mark.benchmark(group="heartbeats")
@pytest.mark.parametrize("kind", ["java", "pystore"])
def test_a_thousand_sets_cost_a_third_of_a_core(
    kind: str,
    benchmark: BenchmarkFixture,
    folder: Callable[[], Path],
    is_smoke: bool,
    table: Table,
) -> None:
    """
    Counted: the controller's processor time while 1 000 sets of three brokers, each on
    a connection of its own, send a heartbeat a second, and its memory at most since it
    was started. The brokers are in one process, and their frames are made before. As
    many connections send the same heartbeats at the same time to a bare protocol of
    asyncio (`bare_server.py`).
    """
    sets, seconds = (10, 0.5) if is_smoke else (1000, BEATING_S)
    seen: list[_Beating] = []
    memory: list[float] = []

    def run() -> None:
        with (
            controller(folder()) as one,
            Child("bare_server.py") as bare,
            Child("brokers_child.py", bare.call("address"), sets, 3, kind) as others,
            Child("brokers_child.py", one.address, sets, 3, kind) as crowd,
        ):
            assert crowd.call("connect") == others.call("connect") == 3 * sets
            crowd.call("start", AT_ONCE)
            others.call("start_unasked")
            pid = bare.call("pid")
            time.sleep(seconds / 4)
            for _ in range(1 if is_smoke else BEATING_PARTS):
                seen.append(_beating(one, crowd, pid, others, seconds))
            assert crowd.call("rest") == 1
            memory.append(one.memory_bytes() / _MIB)

    benchmark.pedantic(run, rounds=1)

    what = f"{sets} sets of 3 brokers of {kind} that send a heartbeat each second"
    shares = Figure(tuple(one.controller * 100 for one in seen))
    values = {"heartbeats": f"{seen[-1].rate:,.0f}/s", "load": load()}
    table.at_most(f"{what}: processor", 30, shares, "% of a core", values)
    table.at_most(f"{what}: memory", 200, Figure(tuple(memory)), "MiB", {})
    # A smoke run may be shorter than a tick of the processor's time.
    times = tuple(one.controller / max(one.bare, 1e-3) for one in seen)
    part = Figure(tuple(one.bare * 100 for one in seen)).median
    values = {"bare protocol": f"{part:.1f} % of a core", "load": load()}
    table.at_most(
        f"{what}: processor, of a bare protocol of asyncio that answers constant bytes",
        2,
        Figure(times),
        "times",
        values,
    )


@pytest.mark.benchmark(group="registration storm")
def test_a_thousand_brokers_start_at_once(
    benchmark: BenchmarkFixture,
    folder: Callable[[], Path],
    sizes: Sizes,
    is_smoke: bool,
    table: Table,
) -> None:
    """
    Timed: 500 sets of two brokers with empty stores, from the first request until each
    broker has its id and knows a master. They are connected already.
    """
    sets = 10 if is_smoke else 500
    taken: list[float] = []

    def run() -> None:
        with (
            controller(folder()) as one,
            Child("brokers_child.py", one.address, sets, 2, "java") as crowd,
        ):
            crowd.call("connect")
            taken.append(crowd.call("start", 2 * sets))
            crowd.call("rest")

    benchmark.pedantic(run, rounds=sizes.rounds)

    table.at_most(
        f"{2 * sets} brokers start at once, until all {sets} sets have masters",
        10,
        Figure(tuple(taken)),
        "s",
        {},
    )


@pytest.fixture(scope="module")
def records(place: Path, is_smoke: bool) -> Iterator[dict[int, Path]]:
    """
    Directories of records, by how many sets they have.
    """
    found = {count: place / f"sets-{count}" for count in (10, 50 if is_smoke else MANY)}
    for count, path in found.items():
        write_sets(path, count)
    yield found
    for path in found.values():
        shutil.rmtree(path)


@pytest.mark.benchmark(group="restart of a controller")
def test_a_controller_with_many_sets_is_soon_back(
    benchmark: BenchmarkFixture,
    records: dict[int, Path],
    sizes: Sizes,
    table: Table,
) -> None:
    """
    Timed: from the start of the process until a client has received that it leads
    (1005), and the SyncStateSet of its last set (1006).
    """
    count = max(records)
    taken: list[float] = []
    heard: list[float] = []
    started: list[float] = []

    def run() -> None:
        began_s = time.perf_counter()
        with controller(records[count]) as one:
            heard.append(time.perf_counter() - began_s)
            until_served(one.address, f"set-{count - 1}")
            taken.append(time.perf_counter() - began_s)
        command = [sys.executable, "-m", "pystore", "controller", "--help"]
        began_s = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        started.append(time.perf_counter() - began_s)

    benchmark.pedantic(run, rounds=sizes.rounds)

    table.at_most(
        f"restart of a controller with {count} sets, until it serves",
        1,
        Figure(tuple(taken)),
        "s",
        {
            "until it listens": f"{Figure(tuple(heard)).median:.2f} s",
            "interpreter and imports alone": f"{Figure(tuple(started)).median:.2f} s",
        },
    )


@pytest.mark.benchmark(group="decisions")
def test_a_decision_costs_the_same_among_many_sets(
    benchmark: BenchmarkFixture,
    records: dict[int, Path],
    sizes: Sizes,
    is_smoke: bool,
    table: Table,
) -> None:
    """
    Timed: 300 decisions that change a set, one after the other, each committed to LMDB
    before the next; the sets take turns. The same among ten sets and among many.
    """
    few, many = (
        Decisions(path, count, 10 if is_smoke else 300)
        for count, path in sorted(records.items())
    )

    contest = Contest(benchmark, sizes.rounds)
    taken = contest.hold(many.contender, {"few": few.contender})

    what = f"cost of a decision among {max(records)} sets, of that among {min(records)}"
    micro = {
        f"{count} sets": f"{taken[name].median / few.repeats * 1e6:.0f} us"
        for count, name in zip(sorted(records), ("few", "pystore"), strict=True)
    }
    grown = ratios(taken["pystore"], taken["few"])
    table.at_most(f"{what}, with its commit", 1.5, grown, "times", micro)
    used = [Figure(tuple(one.processor_s)) for one in (few, many)]
    spent = {
        f"{count} sets": f"{figure.median / few.repeats * 1e6:.0f} us"
        for count, figure in zip(sorted(records), used, strict=True)
    }
    grown = ratios(used[1], used[0])
    table.at_most(f"{what}, processor time", 1.5, grown, "times", spent)
