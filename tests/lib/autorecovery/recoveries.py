"""
Replicas of one log, their damage, and a worker that repairs them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from lib.autorecovery.local_set import LocalSet
from lib.autorecovery.marks import Clock, corrupt
from lib.command_line import segment_file
from lib.store.late import follow_from
from lib.store.pairs import SEGMENT, fill, seal
from pystore import Message, Store
from pystore.autorecovery.mark import Missing, Priority, Reason
from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.autorecovery.repair_counts import RepairCounts
from pystore.autorecovery.segment_key import SegmentKey
from pystore.autorecovery.worker import ReplicationWorker
from pystore.records.record_store import RecordStore
from pystore.rocketmq.identity_file import BrokerIdentity
from pystore.segments.order import OrderAction
from pystore.verify import verify_store

__all__ = [
    "ABSENT",
    "DIVERGENT",
    "FILL",
    "KEY",
    "RECORDS",
    "Recovery",
    "actions",
    "alive",
    "begin_late",
    "bytes_of",
    "check_equal",
    "damage",
    "flip",
    "fork",
    "large",
    "unconfirmed",
]

RECORDS = 300
KEY = SegmentKey("cluster", "set", SEGMENT)
ABSENT = Missing(Reason.ABSENT, "the file is missing")
DIVERGENT = Missing(Reason.DIVERGENT, "other bytes")
FILL = Missing(Reason.FILL, "the log begins above it")


class Recovery:
    """
    A queue, a worker with one slot, and their clock.

    Args:
        store: of the queue.
        replicas: of the set.
        name: of the worker.
        clock: of both; ``None``: one of its own.
        counts: get what it does; ``None``: none is looked at.
    """

    def __init__(
        self,
        store: RecordStore,
        replicas: LocalSet,
        name: str = "worker",
        clock: Clock | None = None,
        counts: RepairCounts | None = None,
    ) -> None:
        self.clock = clock or Clock()
        self.store = store
        self.queue = UnderReplicationQueue(store, self.clock)
        self.worker = ReplicationWorker(
            store,
            name,
            controllers=lambda: replicas,
            peers=replicas,
            clock_ms=self.clock,
            now_ms=self.clock,
            chance=Random(1).random,
            slots=1,
            counts=counts,
        )

    def mark(self, facts: dict[int, Missing], key: SegmentKey = KEY) -> None:
        """
        Marks a segment.
        """
        self.queue.mark(key, facts, Priority.FEWER_THAN_WANTED, by="auditor")

    def run(self, until: Callable[[], bool] | None = None) -> None:
        """
        Turns of the slot until it is idle, or a condition holds.
        """
        for _ in range(200):
            turn = self.worker.step(0)
            self.clock.now_ms += max(turn.wait_ms, 1)
            if turn.is_idle if until is None else until():
                return
        pytest.fail("the worker has no end")

    def later(self) -> None:
        """
        Past each rest, and each rest of a worker that looked in vain.
        """
        self.clock.now_ms += 400_000


def flip(root: Path, at: int, base: int = SEGMENT) -> None:
    """
    Changes one bit of a segment.
    """
    with segment_file(root, base).open("r+b") as file:
        file.seek(at)
        old = file.read(1)
        file.seek(at)
        file.write(bytes([old[0] ^ 4]))


def damage(root: Path, kind: str) -> Missing:
    """
    Damages a segment; returns the evidence.
    """
    path = segment_file(root, SEGMENT)
    match kind:
        case "payload bit":
            flip(root, 700)
            return corrupt(0)
        case "header bit":
            flip(root, 4)
            return corrupt(0)
        case "short":
            os.truncate(path, 3000)
        case "missing":
            path.unlink()
    return ABSENT


def fork(replicas: LocalSet, broker_id: int) -> None:
    """
    Gives a replica a whole log with other bytes.
    """
    root = replicas.replicas[broker_id].root
    shutil.rmtree(root)
    fill(root, RECORDS, first=5)
    seal(root)


def large(root: Path, size: int) -> None:
    """
    A sealed store with a segment of some blocks.
    """
    with Store(root, segment_size=size, queue_file_bytes=20 * 400) as store:
        body = Random(1).randbytes(1 << 16)
        while store.log.end_offset < size + (1 << 16):
            store.log.append(Message("t", body))
        store.dispatch()
    seal(root)


def unconfirmed(replicas: LocalSet, broker_id: int, made: Path) -> None:
    """
    Makes a replica one whose set has not confirmed all of the segment.
    """
    root = replicas.replicas[broker_id].root
    shutil.rmtree(root)
    follow_from(made, root, 0, SEGMENT + 100)
    with Store(root) as store, store.log.writer.metastore.change() as change:
        change.store_identity(BrokerIdentity("cluster", "set", broker_id))


def begin_late(replicas: LocalSet, made: Path, tmp_path: Path, base: int) -> None:
    """
    Makes the third replica a new one, which fills its history.
    """
    it = replicas.replicas[3]
    it.root, it.is_filling = tmp_path / "late", True
    follow_from(made, it.root, base)


def actions(replicas: LocalSet) -> list[list[OrderAction]]:
    """
    What each replica was asked for.
    """
    return [[one.action for one in it.orders] for it in replicas.replicas.values()]


def bytes_of(replicas: LocalSet) -> list[bytes]:
    """
    The segment of each replica.
    """
    paths = [segment_file(it.root, SEGMENT) for it in replicas.replicas.values()]
    return [one.read_bytes() for one in paths]


def alive(replicas: LocalSet) -> dict[int, str]:
    """
    The incarnations of those that are alive.
    """
    return {one: it.incarnation for one, it in replicas.replicas.items() if it.is_alive}


def check_equal(replicas: LocalSet, made: Path) -> None:
    """
    Checks that every copy is whole and equal.
    """
    for it in replicas.replicas.values():
        assert "whole" == verify_store(it.root).verdict
        for path in sorted((made / "commitlog").iterdir())[:-1]:
            copy = it.root / "commitlog" / path.name
            assert path.read_bytes() == copy.read_bytes()
