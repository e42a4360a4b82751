"""
Whether repairs and catch-up keep the rate of their host, and what writers notice.
"""

from __future__ import annotations

import math
import shutil
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from backlogs import Backlog, full_segments, serving
from contest import Figure
from large_stores import Stores
from lib.store.late import follow_from
from load import Load
from machine import load
from table import Table

from pystore.clocks import clock_ms
from pystore.events.node_teller import untold
from pystore.ha.insync.ack import Ack
from pystore.ha.master.config import MasterConfig
from pystore.ha.master.service import MasterService, Mastership
from pystore.ha.slave.backoff import BackOffConfig
from pystore.ha.slave.config import SlaveConfig
from pystore.ha.slave.follower_thread import FollowerThread
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.rates.host_rates import LOOK_MS, HostRates, RateLimits
from pystore.replicaset import AgreedSet, Member
from pystore.segments.copy import block_count
from pystore.segments.mend_plan import plan_mending
from pystore.segments.mending import MendProgress, fill_store, mend_open
from pystore.segments.open_copies import open_copies
from pystore.segments.pace import Pace
from pystore.segments.peer_copy import PeerCopy
from pystore.segments.peer_server import SegmentServer
from pystore.segments.store_copy import StoreCopy
from pystore.store.commit_log import CommitLog
from pystore.store.store import Store

if TYPE_CHECKING:
    from conftest import Sizes
    from pytest_benchmark.fixture import BenchmarkFixture

_MB = 1_000_000
_EPOCH = 1
_WINDOW_S = 5.0
_REST = 1024
"""Bytes a second of a repair that rests."""


@pytest.fixture(scope="module")
def sealed(stores: Stores) -> Backlog:
    """
    A large store, whose full segments are sealed.
    """
    return full_segments(stores.sealed)


@contextmanager
def _in_background(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """
    Works in a thread until the block ends; its error is that of the bench.
    """
    is_over, errors = threading.Event(), list[Exception]()

    def run() -> None:
        try:
            work(is_over)
        except Exception as error:
            # Any error: the thread of the bench raises it.
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    if errors:
        raise errors[0]


def _master(log: CommitLog, segment: int, rates: HostRates) -> MasterService:
    """
    A master that leaves its set alone: each slave catches up.
    """
    return MasterService(
        log,
        Mastership(
            config=MasterConfig("c", "b", 1, _EPOCH, segment),
            me=Member(1),
            agreed=AgreedSet(frozenset({Member(1)}), 1),
            broker_ids=lambda: frozenset({1, 2}),
            outward=rates.outward,
            latency=rates.latency,
        ),
    )


@contextmanager
def _two_takers(
    root: Path, folder: Path, segment: int, rates: HostRates
) -> Iterator[Callable[[], int]]:
    """
    A slave that catches up and a repair that pulls, both of one host with these rates;
    yields what they have got.
    """
    pulled = 0
    with ExitStack() as stack:
        log = stack.enter_context(CommitLog(root, segment_size=segment))
        log.begin_epoch(_EPOCH)
        service = stack.enter_context(_master(log, segment, rates))
        server = SegmentServer(root, "127.0.0.1", rate=rates.outward)
        stack.enter_context(server)
        slave = stack.enter_context(ReplicaLog(folder, segment_size=segment))

        def pull(is_over: threading.Event) -> None:
            nonlocal pulled
            with closing(PeerCopy(server.address)) as peer:
                while True:
                    for index in range(block_count(segment)):
                        pulled += len(peer.block(0, index))
                        if is_over.is_set():
                            return

        stack.enter_context(_in_background(pull))
        host, port = service.address
        follower = FollowerThread(
            slave,
            f"{host}:{port}",
            SlaveConfig("c", "b", 2, epoch=_EPOCH, incarnation=1),
            clock_ms,
            tell=untold,
            pace=BackOffConfig(),
        )
        stack.callback(follower.stop)
        yield lambda: pulled + slave.log().received_offset


@pytest.mark.benchmark(group="rates")
def test_catch_up_and_repair_share_one_rate_that_changes(
    stores: Stores,
    folder: Callable[[], Path],
    is_smoke: bool,
    table: Table,
    benchmark: BenchmarkFixture,
) -> None:
    """
    What arrives of both within 5 s, over the rate; then over another one.
    """
    shares: list[float] = []

    def run() -> None:
        place = folder()
        shutil.copytree(stores.closed, place / "master")
        rates = HostRates(RateLimits(out_bytes=_MB))
        window_s = 0.2 if is_smoke else _WINDOW_S
        with _two_takers(
            place / "master", place / "slave", stores.segment, rates
        ) as got:
            for limit in (20 * _MB, 40 * _MB, 10 * _MB):
                rates.change(out_bytes=limit)
                time.sleep(window_s / 10)  # what was under way at the former rate
                before, began_s = got(), time.perf_counter()
                time.sleep(window_s)
                taken_s = time.perf_counter() - began_s
                shares.append((got() - before) / taken_s / limit)

    benchmark.pedantic(run)
    off = Figure(tuple(abs(one - 1) for one in shares))
    table.at_most(
        "rate of catch-up and repair together, off the limit over 5 s, at 20, 40 and "
        "10 MB/s",
        0.1,
        Figure((off.most,)),
        "of it",
        {"of the limit": ", ".join(f"{one:.3f}" for one in shares), "load": load()},
    )


@dataclass
class Appends:
    """
    Appends of one thread with the ack ``leader-synced``, until it ends.

    Attributes:
        taken_ms: of each.
    """

    service: MasterService
    taken_ms: list[float] = field(default_factory=list)

    def work(self, is_over: threading.Event) -> None:
        """
        One after the other.
        """
        message = Load(1, 1).messages[0]
        while not is_over.is_set():
            began_s = time.perf_counter()
            _, settled = self.service.append(message, Ack.LEADER_SYNCED, 60_000)
            self.taken_ms.append((time.perf_counter() - began_s) * 1000)
            assert settled.is_reached

    def lasting(self, lasting_s: float) -> list[float]:
        """
        What appends take for so long, in ms.
        """
        self.taken_ms = []
        with _in_background(self.work):
            time.sleep(lasting_s)
        return self.taken_ms


def _p99(taken_ms: list[float]) -> float:
    return statistics.quantiles(taken_ms, n=100)[-1]


@contextmanager
def _repair(
    backlog: Backlog, root: Path, rates: HostRates, pace: Pace
) -> Iterator[None]:
    """
    A log that began late is filled from a process that serves it.
    """
    follow_from(backlog.root, root, backlog.end_offset)

    def work(_: threading.Event) -> None:
        with (
            serving(backlog.root) as address,
            Store(root) as store,
            open_copies([address]) as copies,
        ):
            plan = plan_mending(StoreCopy(root), copies)
            fill = fill_store(store, nullcontext())
            # One segment takes longer than is measured.
            mend_open(store, fill, plan.steps[:1], root, MendProgress(pace=pace))

    def look(is_over: threading.Event) -> None:
        while not is_over.wait(LOOK_MS / 1000):
            rates.look()

    with _in_background(look), _in_background(work):
        yield


@pytest.mark.benchmark(group="rates")
def test_writers_hardly_notice_a_repair_that_yields(
    sealed: Backlog,
    folder: Callable[[], Path],
    is_smoke: bool,
    table: Table,
    sizes: Sizes,
) -> None:
    """
    The 99th percentile of appends beside a repair, over that while it rests, by turns;
    the repair yields above 1.25 times the latter.
    """
    if not sealed.end_offset:
        pytest.skip("the store of a smoke test has no full segment")
    lasting_s, turns = (0.2, 1) if is_smoke else (4.0, 6)
    alone, beside = list[float](), list[float]()
    over, moved = list[float](), list[float]()
    place, rates = folder(), HostRates(RateLimits(in_bytes=40 * _MB))
    pace = Pace(_REST, host=rates.inward)
    with CommitLog(place / "master", segment_size=sizes.segment) as log:
        log.begin_epoch(_EPOCH)
        with (
            _master(log, sizes.segment, rates) as service,
            _repair(sealed, place / "late", rates, pace),
        ):
            appends = Appends(service)
            appends.lasting(lasting_s / 2)  # the plan is made, and the segment
            for _ in range(turns):
                mine = appends.lasting(lasting_s)
                alone += mine
                rates.change(latency_ms=math.ceil(1.25 * _p99(alone)))
                pace.change(0)
                before = rates.inward.moved_bytes
                theirs = appends.lasting(lasting_s)
                moved.append((rates.inward.moved_bytes - before) / lasting_s / _MB)
                pace.change(_REST)
                beside += theirs
                over.append(_p99(theirs) / _p99(mine))
            # The rest of its segment is no matter.
            rates.change(in_bytes=0, latency_ms=0)
            pace.change(0)
    values = {
        "alone": f"{_p99(alone):.1f} ms",
        "beside": f"{_p99(beside):.1f} ms",
        "appends": f"{len(alone)} and {len(beside)}",
        "turns": ", ".join(f"{one:.2f}" for one in over),
        "load": load(),
    }
    what = "leader-synced append p99 beside a repair"
    ratio = Figure((_p99(beside) / _p99(alone),))
    table.at_most(f"{what}, over that without", 1.5, ratio, "", values)
    table.at_least(
        f"{what}: what the repair moves, of 25 MB/s",
        1.0,
        Figure(tuple(one / 25 for one in moved)),
        {"MB/s": ", ".join(f"{one:.0f}" for one in moved)},
    )
