"""
Segments, facts and queues for tests of AutoRecovery.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from pystore.autorecovery.claim import Claim
from pystore.autorecovery.mark import Missing, Priority, Reason, SegmentMark
from pystore.autorecovery.marking import NewMark
from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.autorecovery.segment_key import SegmentKey
from pystore.autorecovery.worker_slot import WorkerSlot
from pystore.records.record_store import RecordStore

__all__ = [
    "ABSENT_COPY",
    "LOST_COPY",
    "Clock",
    "Peer",
    "a_mark",
    "corrupt",
    "new_marks",
    "segment",
]

GIB = 1 << 30

LOST_COPY = Missing(Reason.LOST, "dead, says controller 1", 1000)
ABSENT_COPY = Missing(Reason.ABSENT, "the replica has no such file")


def corrupt(*blocks: int) -> Missing:
    """
    A copy with bad blocks.
    """
    return Missing(Reason.CORRUPT, "digests differ", blocks=blocks)


def segment(number: int, set_name: str = "set") -> SegmentKey:
    """
    The segment with a number.
    """
    return SegmentKey("cluster", set_name, number * GIB)


def a_mark(
    missing: Mapping[int, Missing] | None = None,
    priority: Priority = Priority.FEWER_THAN_WANTED,
    first_ms: int = 1000,
) -> SegmentMark:
    """
    A mark as made at a time.
    """
    facts = {2: LOST_COPY} if missing is None else missing
    return SegmentMark(facts, priority, first_ms, first_ms, size=GIB, by="auditor")


def new_marks(
    count: int, priority: Priority = Priority.FEWER_THAN_WANTED, first: int = 0
) -> list[NewMark]:
    """
    Marks of as many segments, of ten sets in turn.
    """
    return [
        NewMark(segment(n, f"set-{n % 10}"), {2: LOST_COPY}, priority, GIB)
        for n in range(first, first + count)
    ]


class Clock:
    """
    A clock that the test sets.
    """

    def __init__(self, now_ms: int = 1_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        """
        Its time.
        """
        return self.now_ms


class Peer:
    """
    A process with a session of its own, its queue and one slot of a worker.

    Args:
        store: the session.
        clock: of the queue.
        name: of the slot.
        seed: of its chance.
    """

    def __init__(
        self,
        store: RecordStore,
        clock: Callable[[], int],
        name: str = "worker/0",
        seed: int = 1,
    ) -> None:
        self.store = store
        self.queue = UnderReplicationQueue(store, clock)
        self.slot = self.another_slot(name, seed)

    def another_slot(self, name: str, seed: int) -> WorkerSlot:
        """
        Another slot of the same process.
        """
        return self.queue.slot(name, Random(seed).random)

    def mark(
        self, key: SegmentKey, missing: Mapping[int, Missing] | None = None
    ) -> None:
        """
        Marks a segment.
        """
        facts = {2: LOST_COPY} if missing is None else missing
        self.queue.mark(key, facts, Priority.FEWER_THAN_WANTED, by="auditor")

    def take(self) -> Claim:
        """
        Takes a segment, of which there is one.
        """
        claim = self.queue.take(self.slot)
        assert claim is not None
        return claim
