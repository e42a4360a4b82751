"""
What the queue costs ZooKeeper: the small form of bench/test_recovery_queue.py.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
from lib.autorecovery.marks import Clock, new_marks
from lib.remoting.record_stores import filled
from lib.remoting.zookeeper_server import ZookeeperServer

pytest.importorskip("kazoo", reason="needs the extra 'zookeeper'")
from lib.autorecovery.zookeeper_requests import CountedStore

from pystore.autorecovery.idle_wait import IdleWait
from pystore.autorecovery.marking import MarkOutcome
from pystore.autorecovery.pauses import PauseKind, PauseTarget, pause
from pystore.autorecovery.queue import UnderReplicationQueue

MARKS = 1000


class Ensemble:
    """
    A root of its own, and stores over it.
    """

    def __init__(self, hosts: str) -> None:
        self._hosts = hosts
        self._root = f"/{uuid.uuid4().hex}"
        self.stores: list[CountedStore] = []

    def queue(
        self, clock: Callable[[], int] = lambda: int(time.time() * 1000)
    ) -> tuple[UnderReplicationQueue, CountedStore]:
        """
        One with a session of its own.
        """
        store = CountedStore(self._hosts, root=self._root)
        self.stores.append(store)
        return UnderReplicationQueue(store, clock), store


@pytest.fixture
def ensemble(zookeeper: ZookeeperServer) -> Iterator[Ensemble]:
    """
    Over the server of all tests.
    """
    made = Ensemble(zookeeper.hosts)
    yield made
    for store in made.stores:
        store.close()


def drained(ensemble: Ensemble, number: int) -> tuple[int, int]:
    """
    Repairs until it finds nothing more; returns segments and requests.
    """
    queue, store = ensemble.queue()
    slot = queue.slot(f"worker-{number}/0", Random(number).random)
    begun, repaired = store.requests, 0
    for _ in range(3):
        while (claim := queue.take(slot)) is not None:
            assert queue.done(claim)
            repaired += 1
    return repaired, store.requests - begun


def test_requests_for_a_segment_do_not_grow_with_workers(ensemble: Ensemble) -> None:
    """
    AR-R19: at most 20, and equal within 1.5; with records of the controller beside.
    """
    queue, store = ensemble.queue()
    filled(store, [f"controller/sets/cluster/{n}" for n in range(MARKS)])
    costs = {}
    for workers in (1, 8):
        assert {MarkOutcome.NEW: MARKS} == queue.mark_many(new_marks(MARKS), by="a")
        queue.publish_window()
        with ThreadPoolExecutor(workers) as pool:
            done = list(pool.map(lambda n: drained(ensemble, n), range(workers)))
        left = queue.list()
        assert MARKS - len(left) == sum(repaired for repaired, _ in done)
        assert len(left) <= MARKS // 50
        for key in left:
            assert queue.forget(key)
        costs[workers] = sum(sent for _, sent in done) / (MARKS - len(left))
    print(f"requests for a repaired segment, by workers: {costs}")

    assert max(costs.values()) <= 20
    assert max(costs.values()) <= 1.5 * min(costs.values())


def test_paused_sets_cost_the_workers_next_to_nothing(ensemble: Ensemble) -> None:
    """
    AR-R24: half of the sets, and half of the segments, are passed over.
    """
    queue, store = ensemble.queue()
    assert {MarkOutcome.NEW: MARKS} == queue.mark_many(new_marks(MARKS), by="a")
    now_ms = int(time.time() * 1000)
    for number in range(5):
        target = PauseTarget(PauseKind.SET, "cluster", f"set-{number}")
        pause(store, target, now_ms + 3_600_000, by="ops", now_ms=now_ms)
    queue.publish_window()
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda n: drained(ensemble, n), range(4)))
    left = {key.set_name for key in queue.list()}
    repaired = sum(segments for segments, _ in done)
    cost = sum(sent for _, sent in done) / repaired
    print(f"requests for a repaired segment beside paused ones: {cost:.1f}")

    assert {f"set-{number}" for number in range(5)} <= left
    assert MARKS // 2 - MARKS // 50 <= repaired <= MARKS // 2
    assert cost <= 20


@pytest.mark.parametrize("held", [0, 50])
def test_an_idle_worker_asks_less_than_twice_a_second(
    ensemble: Ensemble, held: int
) -> None:
    """
    Beside others that commit all the time, and where they have all segments; its sleeps
    are counted, not slept.
    """
    other, _ = ensemble.queue()
    other.mark_many(new_marks(held), by="auditor")
    other.publish_window()
    busy = other.slot("busy/0", Random(3).random)
    assert all(other.take(busy) for _ in range(held))
    clock = Clock()
    queue, store = ensemble.queue(clock)
    slot = queue.slot("idle/0", Random(1).random)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.now_ms += int(1000 * seconds)
        other.kick("others")

    idle = IdleWait(
        lambda: queue.glance(slot),
        Random(2).random,
        sleep,
        is_local=store.reads_locally,
    )
    begun = store.requests
    for _ in range(100):
        assert queue.take(slot) is None
        idle.wait()
    rate = (store.requests - begun) / sum(slept)
    print(f"requests of an idle worker: {rate:.2f} a second")

    assert rate < 2
