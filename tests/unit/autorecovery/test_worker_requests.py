"""
What a repaired segment costs ZooKeeper, with the looks, locks and records of workers.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
from lib.autorecovery.marks import ABSENT_COPY
from lib.autorecovery.model_set import ModelSet, base_of
from lib.remoting.zookeeper_server import ZookeeperServer

pytest.importorskip("kazoo", reason="needs the extra 'zookeeper'")
from lib.autorecovery.zookeeper_requests import CountedStore

from pystore.autorecovery.mark import Priority
from pystore.autorecovery.marking import NewMark
from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.autorecovery.segment_key import SegmentKey
from pystore.autorecovery.worker import ReplicationWorker
from pystore.clocks import clock_ms, wall_ms

SEGMENTS = 400


@pytest.fixture
def stores(zookeeper: ZookeeperServer) -> Iterator[list[CountedStore]]:
    """
    Five sessions over a root of its own.
    """
    root = f"/{uuid.uuid4().hex}"
    made = [CountedStore(zookeeper.hosts, root=root) for _ in range(5)]
    yield made
    for store in made:
        store.close()


def drained(store: CountedStore, replicas: ModelSet, number: int) -> int:
    """
    Repairs until nothing more is found; returns the requests.
    """
    worker = ReplicationWorker(
        store,
        f"worker-{number}",
        controllers=lambda: replicas,
        peers=replicas,
        clock_ms=wall_ms,
        now_ms=clock_ms,
        chance=Random(number).random,
        slots=1,
    )
    begun, idle = store.requests, 0
    while idle < 3:
        idle += worker.step(0).is_idle
    return store.requests - begun


def test_a_repaired_segment_costs_as_much_with_many_workers(
    stores: list[CountedStore],
) -> None:
    """
    AR-R19: at most 20, and equal within 1.5.
    """
    queue, costs = UnderReplicationQueue(stores[-1], wall_ms), {}
    for workers in (1, 4):
        replicas = ModelSet(3, SEGMENTS)
        replicas.replicas[2].copies = [[] for _ in range(SEGMENTS)]
        keys = [SegmentKey("cluster", "set", base_of(n)) for n in range(SEGMENTS)]
        rank = Priority.FEWER_THAN_WANTED
        marks = [NewMark(key, {2: ABSENT_COPY}, rank) for key in keys]
        queue.mark_many(marks, by="auditor")
        queue.publish_window()
        with ThreadPoolExecutor(workers) as pool:
            work = [
                pool.submit(drained, stores[one], replicas, one)
                for one in range(workers)
            ]
            sent = sum(one.result() for one in work)
        left = queue.list()
        assert len(left) <= SEGMENTS // 20
        for key in left:
            queue.forget(key)
        costs[workers] = sent / (SEGMENTS - len(left))
    print(f"requests for a repaired segment, by workers: {costs}")

    assert max(costs.values()) <= 20
    assert max(costs.values()) <= 1.5 * min(costs.values())
