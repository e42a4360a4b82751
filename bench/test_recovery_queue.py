"""
Requests to ZooKeeper for each repaired segment, by the number of workers.

Workers are threads with a session each. A repair takes no time, so that they meet at
the record store all the time, as hundreds of workers with real repairs do.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random

import pytest
from contest import Figure
from lib.autorecovery.marks import new_marks
from lib.autorecovery.zookeeper_requests import CountedStore
from lib.remoting.record_stores import filled
from lib.remoting.zookeeper_server import ZookeeperServer, free_ports, missing
from table import Table

from pystore.autorecovery.idle_wait import IdleWait
from pystore.autorecovery.queue import UnderReplicationQueue

WORKERS = (1, 8, 32)
MANY = 10_000
SMALL = 200
IDLE_S = 120.0


def _now_ms() -> int:
    return int(time.time() * 1000)


@pytest.fixture
def hosts(folder: Callable[[], Path]) -> Iterator[str]:
    """
    One server.
    """
    if reason := missing():
        pytest.skip(reason)
    place = folder() / "zookeeper"
    server = ZookeeperServer(place, free_ports(1)[0])
    try:
        server.await_mode()
        yield server.hosts
    finally:
        server.kill()
        shutil.rmtree(place)


def _drained(hosts: str, root: str, number: int) -> tuple[int, int]:
    """
    Repairs until it finds nothing more; returns segments and requests.
    """
    store = CountedStore(hosts, root=root)
    try:
        queue = UnderReplicationQueue(store, _now_ms)
        slot = queue.slot(f"worker-{number}/0", Random(number).random)
        begun, repaired, misses = store.requests, 0, 0
        while misses < 3:
            claim = queue.take(slot)
            misses = misses + 1 if claim is None else 0
            if claim is not None:
                assert queue.done(claim)
                repaired += 1
        return repaired, store.requests - begun
    finally:
        store.close()


def _idle(hosts: str, root: str, seconds: float) -> float:
    """
    Looks and waits in vain; returns requests per second.
    """
    store = CountedStore(hosts, root=root)
    try:
        queue = UnderReplicationQueue(store, _now_ms)
        slot, random = queue.slot("idle/0", Random(1).random), Random(2)
        idle = IdleWait(
            lambda: queue.glance(slot),
            random.random,
            time.sleep,
            is_local=store.reads_locally,
        )
        begun, begun_s = store.requests, time.monotonic()
        while (taken_s := time.monotonic() - begun_s) < seconds:
            assert queue.take(slot) is None
            idle.wait()
        return (store.requests - begun) / taken_s
    finally:
        store.close()


@pytest.mark.benchmark(group="recovery queue")
def test_requests_for_a_segment_do_not_grow_with_workers(
    hosts: str, is_smoke: bool, table: Table
) -> None:
    """
    Counted: requests of the workers while they repair 10 000 marked segments, beside
    10 000 records of the controller; the window is published once. Then one idle
    worker's, for two minutes.
    """
    count = SMALL if is_smoke else MANY
    costs: dict[int, float] = {}
    for workers in WORKERS:
        root = f"/{uuid.uuid4().hex}"
        auditor = CountedStore(hosts, root=root)
        filled(auditor, [f"controller/sets/cluster/{n}" for n in range(count)])
        queue = UnderReplicationQueue(auditor, _now_ms)
        queue.mark_many(new_marks(count), by="auditor")
        queue.publish_window()
        with ThreadPoolExecutor(workers) as pool:
            done = list(pool.map(partial(_drained, hosts, root), range(workers)))
        left = len(queue.list())
        assert count == left + sum(segments for segments, _ in done)
        assert left <= count // 100
        costs[workers] = sum(sent for _, sent in done) / (count - left)
        auditor.close()
    idle = _idle(hosts, f"/{uuid.uuid4().hex}", 1.0 if is_smoke else IDLE_S)
    told = {f"{n} workers": f"{cost:.1f}" for n, cost in costs.items()}
    most = Figure((max(costs.values()),))
    table.at_most("requests for a repaired segment", 20, most, "requests", told)
    growth = Figure((max(costs.values()) / min(costs.values()),))
    table.at_most("the same, most of least", 1.5, growth, "times", told)
    table.at_most("requests of an idle worker", 2, Figure((idle,)), "a second", {})
