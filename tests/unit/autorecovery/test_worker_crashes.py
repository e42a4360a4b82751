"""
Sources, targets, workers and record stores that end under a repair.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.autorecovery.local_set import LocalSet
from lib.autorecovery.marks import Clock, corrupt
from lib.autorecovery.recoveries import (
    ABSENT,
    KEY,
    Recovery,
    actions,
    bytes_of,
    check_equal,
    damage,
)
from lib.command_line import segment_file
from lib.remoting.record_stores import Space
from lib.store.pairs import SEGMENT

from pystore.autorecovery.segment_key import SegmentKey
from pystore.errors import SessionLostError
from pystore.records.memory import Fault, MemorySpace, MemoryStore
from pystore.segments.order import OrderAction


class Killed(BaseException):
    """
    The process ends here.
    """


class TestFailures:
    """Sources, targets and workers that end under way."""

    def test_a_source_that_fails_is_followed_by_the_next_one(
        self, recovery: Recovery, replicas: LocalSet, made: Path
    ) -> None:
        """It rots after it was looked at."""
        damage(replicas.replicas[1].root, "payload bit")

        def rot(call: str, broker_id: int) -> None:
            if (call, broker_id) == ("order", 1) and replicas.replicas[1].orders:
                replicas.before = lambda _call, _broker_id: None
                damage(replicas.replicas[2].root, "short")

        replicas.before = rot
        recovery.mark({1: corrupt(0)})
        recovery.run()
        assert {} == recovery.queue.list()
        recovery.mark({2: ABSENT})
        recovery.later()
        recovery.run()

        check_equal(replicas, made)

    def test_a_target_that_dies_is_tried_again(
        self, recovery: Recovery, replicas: LocalSet, made: Path
    ) -> None:
        """The segment rests; when it is back its copy is repaired."""
        it = replicas.replicas[2]
        it.polls = 3
        damage(it.root, "missing")
        recovery.mark({2: ABSENT})
        recovery.run(lambda: OrderAction.REPAIR in actions(replicas)[1])
        it.is_alive = False
        recovery.run()
        mark = recovery.queue.list()[KEY]
        assert (1, 0) == (mark.tries, mark.no_copy_tries)
        it.restart()
        recovery.later()
        recovery.run()

        assert {} == recovery.queue.list()
        check_equal(replicas, made)

    def test_a_replica_that_was_started_again_knows_no_job(
        self, recovery: Recovery, replicas: LocalSet
    ) -> None:
        """That says nothing about its copy."""
        it = replicas.replicas[2]
        it.polls = 3
        recovery.mark({2: corrupt(0)})
        recovery.run(lambda: bool(it.jobs))
        it.restart()
        recovery.run()
        mark = recovery.queue.list()[KEY]

        assert "there is no such job" in mark.found[2]
        assert {} == recovery.queue.dead()

    def test_a_mark_during_a_repair_survives_it(
        self, recovery: Recovery, replicas: LocalSet, made: Path
    ) -> None:
        """The next look sees the new fact (BK-A49)."""
        damage(replicas.replicas[2].root, "missing")
        recovery.mark({2: ABSENT})

        def mark(call: str, broker_id: int) -> None:
            if (call, broker_id) == ("order", 2):
                replicas.before = lambda _call, _broker_id: None
                damage(replicas.replicas[3].root, "short")
                recovery.mark({3: ABSENT})

        replicas.before = mark
        recovery.run(lambda: recovery.worker.claim(0) is None)
        assert {2, 3} == set(recovery.queue.list()[KEY].missing)
        assert recovery.queue.holder(KEY) is None
        recovery.later()
        recovery.run()

        assert {} == recovery.queue.list()
        check_equal(replicas, made)

    def test_the_back_off_goes_on_with_another_worker(
        self, recovery: Recovery, replicas: LocalSet, space: Space
    ) -> None:
        """It is stored: 10 s, doubled, at most 300 s."""
        replicas.replicas[2].is_silent = True
        recovery.mark({2: ABSENT})
        rests = []
        for number in range(8):
            clock = recovery.clock
            recovery = Recovery(space.open(), replicas, f"worker-{number}", clock)
            recovery.run()
            rests.append(recovery.queue.list()[KEY].not_before_ms - clock.now_ms)
            recovery.later()

        seconds = [-(-one // 1000) for one in rests]
        assert [10, 20, 40, 80, 160, 300, 300, 300] == seconds

    def test_a_disabled_queue_lets_a_repair_end(
        self, recovery: Recovery, replicas: LocalSet
    ) -> None:
        """Nothing else is taken."""
        it = replicas.replicas[2]
        it.polls = 2
        damage(it.root, "missing")
        recovery.mark({2: ABSENT})
        recovery.mark({2: ABSENT}, SegmentKey("cluster", "set", 0))
        recovery.run(lambda: bool(it.jobs))
        recovery.queue.disable("operator")
        recovery.run()

        assert 1 == len(recovery.queue.list())
        recovery.later()
        recovery.run()
        assert 1 == len(recovery.queue.list())

    def test_two_workers_end_a_hundred_repairs_once(
        self, recovery: Recovery, replicas: LocalSet, made: Path, space: Space
    ) -> None:
        """BK-A71: whoever takes a segment repairs it."""
        other = Recovery(space.open(), replicas, "other", recovery.clock)
        for _ in range(100):
            recovery.mark({2: ABSENT})
            for one in (recovery, other, other, recovery):
                one.worker.step(0)
            recovery.run()
            other.run()
            recovery.later()
            assert {} == recovery.queue.list()
        check_equal(replicas, made)


class TestCrashes:
    """The end of a worker, at any place."""

    @pytest.mark.parametrize("kind", ["payload bit", "missing"])
    def test_after_a_crash_between_any_two_calls_another_worker_finishes(
        self, replicas: LocalSet, made: Path, kind: str
    ) -> None:
        """Of the record store, the controllers and the replicas."""
        good = segment_file(made, SEGMENT).read_bytes()
        calls, is_over = 0, False
        while not is_over:
            space, left = MemorySpace(), calls

            def call(_call: str, _broker_id: int = 0) -> Fault:
                nonlocal left
                left -= 1
                if left < 0:
                    raise Killed
                return Fault.NONE

            fact = damage(replicas.replicas[2].root, kind)
            clock = Clock()
            other = Recovery(MemoryStore(space), replicas, "other", clock)
            other.mark({2: fact})
            replicas.before = call
            store = MemoryStore(space, faults=call)
            try:
                left += 1
                Recovery(store, replicas, "victim", clock).run()
                is_over = True
            except Killed:
                store.close()
            replicas.before = lambda _call, _broker_id: None
            other.later()
            other.run()

            assert {} == other.queue.list()
            assert [good] * 3 == bytes_of(replicas)
            calls += 1
        assert calls > 10

    def test_a_worker_that_slept_over_its_session_changes_nothing(
        self, replicas: LocalSet
    ) -> None:
        """It stops its job; what was marked meanwhile stays."""
        space, clock = MemorySpace(), Clock()
        store = MemoryStore(space)
        victim = Recovery(store, replicas, "victim", clock)
        other = Recovery(MemoryStore(space), replicas, "other", clock)
        replicas.replicas[2].polls = 3
        damage(replicas.replicas[2].root, "missing")
        victim.mark({2: ABSENT})
        victim.run(lambda: OrderAction.REPAIR in actions(replicas)[1])
        (job,) = replicas.replicas[2].jobs
        store.lose_session()
        other.later()
        other.run()
        assert {} == other.queue.list()
        other.mark({3: ABSENT})

        with pytest.raises(SessionLostError):
            victim.run()
        assert [job] == replicas.stopped
        assert victim.worker.claim(0) is None
        assert {KEY} == set(other.queue.list())

    def test_a_claim_that_ended_stops_its_job(
        self, recovery: Recovery, replicas: LocalSet
    ) -> None:
        """The lock is looked at while a job runs."""
        replicas.replicas[2].polls = 10**6
        recovery.mark({2: corrupt(0)})
        recovery.run(lambda: bool(replicas.replicas[2].jobs))
        claim = recovery.worker.claim(0)
        assert claim is not None
        assert recovery.queue.release(claim)
        recovery.run(lambda: recovery.worker.claim(0) is not claim)

        assert 1 == len(replicas.stopped)

    @pytest.mark.parametrize("fault", [Fault.UNREACHABLE, Fault.FULL])
    def test_a_verdict_waits_for_the_record_store(
        self, replicas: LocalSet, made: Path, fault: Fault
    ) -> None:
        """The slot keeps its claim, and does no work twice."""
        faults, space = [Fault.NONE], MemorySpace()
        store = MemoryStore(space, faults=lambda _verb: faults[-1])
        recovery = Recovery(store, replicas)
        replicas.replicas[2].polls = 3
        damage(replicas.replicas[2].root, "missing")
        recovery.mark({2: ABSENT})
        recovery.run(lambda: OrderAction.REPAIR in actions(replicas)[1])
        faults.append(fault)
        for _ in range(20):
            assert not recovery.worker.step(0).is_idle
        faults.append(Fault.NONE)
        recovery.run()

        assert {} == recovery.queue.list()
        assert [OrderAction.REPAIR] == actions(replicas)[1]
        check_equal(replicas, made)
