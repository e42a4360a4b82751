"""
Killed workers: real processes, over LMDB and over ZooKeeper.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lib.autorecovery.marks import Clock, Peer, new_marks
from lib.remoting.zookeeper_server import TICK_MS, ZookeeperServer

from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.autorecovery.segment_key import SegmentKey
from pystore.records.lmdb_store import LmdbStore
from pystore.records.record_store import RecordStore

CHILD = """
import sys
from random import Random
from pystore.autorecovery.queue import UnderReplicationQueue
kind, where, name = sys.argv[1:]
if kind == "lmdb":
    from pystore.records.lmdb_store import LmdbStore
    store = LmdbStore(where)
else:
    from pystore.records.zookeeper_store import ZookeeperStore
    hosts, _, root = where.partition("/")
    store = ZookeeperStore(hosts, root=root)
queue = UnderReplicationQueue(store, lambda: 1_000_000)
slots = [queue.slot(f"{name}/{n}", Random(n).random) for n in range(2)]
claims = [queue.take(slot) for slot in slots]
print(*(claim.key.text for claim in claims), flush=True)
sys.stdin.readline()
for claim in claims:
    try:
        print(queue.done(claim), flush=True)
    except Exception as error:
        print(type(error).__name__, flush=True)
sys.stdin.read()
"""

Place = tuple[str, str, RecordStore]


@pytest.fixture(params=["lmdb", "zookeeper"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """
    The kind, what a child needs to open it, and a store.
    """
    store: RecordStore
    if request.param == "lmdb":
        where = str(tmp_path / "records")
        store = LmdbStore(where)
    else:
        server: ZookeeperServer = request.getfixturevalue("zookeeper")
        # Only here: kazoo is an extra.
        from pystore.records.zookeeper_store import (  # noqa: PLC0415
            ZookeeperStore,
        )

        root = uuid.uuid4().hex
        where = f"{server.hosts}/{root}"
        store = ZookeeperStore(server.hosts, root=root)
    yield request.param, where, store
    store.close()


@pytest.fixture
def worker(place: Place) -> Iterator[Callable[[str], Worker]]:
    """
    Starts workers with two slots each, which take two segments and wait.
    """
    begun: list[Worker] = []

    def begin(name: str) -> Worker:
        begun.append(Worker(place[0], place[1], name))
        return begun[-1]

    yield begin
    for one in begun:
        one.kill()


class Worker:
    """
    A process that has taken two segments.
    """

    def __init__(self, kind: str, where: str, name: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", CHILD, kind, where, name],
            env=os.environ | {"PYTHONPATH": ":".join(filter(None, sys.path))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        texts = self._process.stdout.readline().split()
        self.keys = [SegmentKey.parse(text) for text in texts]
        assert len(self.keys) == 2

    def signal(self, number: signal.Signals) -> None:
        """
        Pauses it, or lets it go on.
        """
        self._process.send_signal(number)

    def done(self) -> list[str]:
        """
        Tells it that the repairs are done; returns what came of it, of each one.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return [self._process.stdout.readline().strip() for _ in self.keys]

    def kill(self) -> None:
        """
        SIGKILL. Again is fine.
        """
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


def test_segments_of_a_killed_worker_are_free(
    place: Place, worker: Callable[[str], Worker]
) -> None:
    """
    In LMDB at once, in ZooKeeper within the time-out of its session; no mark is lost.
    """
    kind, _, store = place
    peer = Peer(store, Clock(), "last/0")
    marks = new_marks(4)
    peer.queue.mark_many(marks, by="auditor")
    peer.queue.publish_window()
    first, second = worker("first"), worker("second")
    held = {key: peer.queue.holder(key) for key in (*first.keys, *second.keys)}
    assert {m.key for m in marks} == set(held)
    assert {"first/0", "first/1", "second/0", "second/1"} == set(held.values())
    assert peer.queue.take(peer.slot) is None

    first.kill()
    if kind != "lmdb":
        _await_no_holder(peer.queue, first.keys)
    # The dead one's segments, and only these.
    assert [None, None] == [peer.queue.holder(key) for key in first.keys]
    claims = [peer.queue.take(peer.another_slot(f"last/{n}", n)) for n in range(3)]
    assert set(first.keys) == {one.key for one in claims if one is not None}
    assert all(peer.queue.done(one) for one in claims if one is not None)
    assert set(second.keys) == set(peer.queue.list())


def test_a_worker_that_was_paused_for_too_long_changes_nothing(
    zookeeper: ZookeeperServer,
) -> None:
    """
    Its session ended meanwhile: one segment was repaired, marked again and taken, the
    other one is as it was. Only over several hosts: LMDB's holders live as long as
    their processes.
    """
    # Only here: kazoo is an extra.
    from pystore.records.zookeeper_store import ZookeeperStore  # noqa: PLC0415

    root = uuid.uuid4().hex
    store = ZookeeperStore(zookeeper.hosts, root=root)
    peer = Peer(store, Clock(), "last/0")
    peer.queue.mark_many(new_marks(2), by="auditor")
    paused = Worker("zookeeper", f"{zookeeper.hosts}/{root}", "paused")
    try:
        paused.signal(signal.SIGSTOP)
        _await_no_holder(peer.queue, paused.keys)
        claim = peer.queue.take(peer.another_slot("last/1", 1))
        assert claim is not None
        assert peer.queue.done(claim)
        peer.mark(claim.key)
        again = peer.queue.take(peer.another_slot("last/2", 2))
        assert again is not None
        before = store.scan("recovery/")
        paused.signal(signal.SIGCONT)

        assert ["SessionLostError"] * 2 == paused.done()
        assert before == store.scan("recovery/")
        assert peer.queue.done(again)
    finally:
        paused.kill()
        store.close()


def _await_no_holder(queue: UnderReplicationQueue, keys: list[SegmentKey]) -> None:
    begun_s = time.monotonic()
    while any(queue.holder(key) for key in keys):
        # The servers grant 20 ticks, and look every tick; the machine may be slow.
        assert time.monotonic() - begun_s < 5 * 20 * TICK_MS / 1000
        time.sleep(0.05)
