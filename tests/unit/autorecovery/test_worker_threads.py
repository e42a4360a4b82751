"""
The threads of a worker over a real record store and a set in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

from lib.autorecovery.marks import ABSENT_COPY, corrupt
from lib.autorecovery.model_set import ROTTEN, ModelSet, base_of

from pystore.autorecovery.mark import Missing, Priority
from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.autorecovery.segment_key import SegmentKey
from pystore.autorecovery.worker_status import list_status
from pystore.autorecovery.worker_threads import WorkerThreads
from pystore.clocks import clock_ms, wall_ms
from pystore.errors import UnavailableError
from pystore.records.memory import MemorySpace, MemoryStore

LIMIT_MS = 60_000


class Threads:
    """
    The threads and what they work on.
    """

    def __init__(self) -> None:
        self.space, self.set = MemorySpace(), ModelSet(3, 4)
        self.own = MemoryStore(self.space)
        self.queue = UnderReplicationQueue(self.own, wall_ms)
        self.stores: list[MemoryStore] = []
        self.refusals = 0
        self.lines: list[str] = []
        self.threads = WorkerThreads(
            self.open,
            "host:1",
            controllers=lambda: self.set,
            peers=self.set,
            say=self.lines.append,
            slots=2,
            again_s=0.01,
        )

    def open(self) -> MemoryStore:
        """
        Another session.
        """
        if self.refusals:
            self.refusals -= 1
            raise UnavailableError("no server answers")
        self.stores.append(MemoryStore(self.space))
        return self.stores[-1]

    def damage(self, segment: int, fact: Missing = ABSENT_COPY) -> None:
        """
        Takes a copy away, and marks it as a verification does: a slot that has looked
        before notices it by its next glance, not by its next scan of the queue.
        """
        self.set.replicas[2].copies[segment] = []
        key = SegmentKey("cluster", "set", base_of(segment))
        self.queue.mark(key, {2: fact}, Priority.LAST_COPY, by="verification")
        self.queue.tell_marked([key])

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """
        Looks until a condition holds.
        """
        pause, end_ms = Event(), clock_ms() + LIMIT_MS
        while not condition():
            assert clock_ms() < end_ms
            pause.wait(0.01)

    def is_repaired(self) -> bool:
        """
        Whether the queue is empty and all copies are good.
        """
        good = all(self.set.replicas[2].is_good(one) for one in range(4))
        return good and not self.queue.list()


def test_all_slots_repair_until_they_are_stopped() -> None:
    """
    Then their records are gone, and nothing is held.
    """
    it = Threads()
    for segment in range(4):
        it.damage(segment)
    it.threads.start()
    it.wait_for(it.is_repaired)
    assert {"host:1/0", "host:1/1"} >= {one.slot for one in list_status(it.own)}
    it.threads.stop()
    it.threads.stop()

    assert [] == list_status(it.own)
    assert 0 == it.queue.summary().claims
    assert ([], "") == (it.lines, it.threads.problem)


def test_a_lost_session_is_followed_by_another_one() -> None:
    """
    Also if the record store does not answer for a while; it is told once.
    """
    it = Threads()
    it.threads.start()
    # Its slots have looked in vain.
    it.wait_for(lambda: 2 == len(list_status(it.own)))
    it.damage(0)
    it.wait_for(it.is_repaired)
    it.refusals = 3
    it.stores[0].lose_session()
    it.damage(1)
    it.wait_for(it.is_repaired)
    it.threads.stop()

    assert 2 == len(it.stores)
    assert 1 == len([one for one in it.lines if "no server answers" in one])


def test_a_defect_stops_neither_the_slot_nor_other_segments() -> None:
    """
    The segment that shows it rests with the reason.
    """
    it = Threads()
    calls = []

    def fail(call: str) -> None:
        calls.append(call)
        if len(calls) == 1:
            raise ZeroDivisionError("a defect")

    it.set.before = fail
    it.damage(0)
    it.threads.start()
    it.wait_for(lambda: "ZeroDivisionError: a defect" in it.threads.problem)
    it.wait_for(lambda: any(one.tries for one in it.queue.list().values()))
    (mark,) = it.queue.list().values()
    assert "ZeroDivisionError: a defect" == mark.why
    it.queue.first(SegmentKey("cluster", "set", 0))
    it.set.replicas[3].copies[1][2] = ROTTEN
    key = SegmentKey("cluster", "set", base_of(1))
    it.queue.mark(key, {3: corrupt(2)}, Priority.LAST_COPY, by="verification")
    it.queue.tell_marked([key])
    it.wait_for(it.is_repaired)
    it.threads.stop()

    assert it.set.replicas[3].is_good(1)


def test_a_worker_that_waits_stops_soon() -> None:
    """
    The end of the session ends its wait.
    """
    it = Threads()
    it.threads.start()
    it.wait_for(lambda: len(list_status(it.own)) == 2)
    begun_ms = clock_ms()
    it.threads.stop()

    assert clock_ms() - begun_ms < LIMIT_MS
    assert [] == list_status(it.own)
