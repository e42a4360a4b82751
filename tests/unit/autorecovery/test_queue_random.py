"""
The queue under a random schedule of several processes, with faults, in memory.

A segment never has two holders. A mark is lost only by `done` of a claim that saw it.
A failure names its seed; ``RECOVERY_SEED`` repeats it.
"""

from __future__ import annotations

import os
from random import Random

import pytest
from lib.autorecovery.marks import LOST_COPY, Clock, segment

from pystore.autorecovery.claim import Claim
from pystore.autorecovery.mark import Missing, Priority, Reason
from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.autorecovery.segment_key import SegmentKey
from pystore.autorecovery.worker_slot import WorkerSlot
from pystore.errors import ClosedError, SessionLostError
from pystore.records.memory import Fault, MemorySpace, MemoryStore

STEPS = 300
SEEDS = 40
SEGMENTS = 6
FIRST_SEED = int(os.environ.get("RECOVERY_SEED", "0")) or Random().randrange(1 << 30)


class Process:
    """
    A worker with two slots; its claims live as long as its session.
    """

    def __init__(self, schedule: Schedule, name: str) -> None:
        random = schedule.random
        self.store = MemoryStore(schedule.space, faults=schedule.fault)
        self.queue = UnderReplicationQueue(self.store, schedule.clock)
        self.slots: dict[WorkerSlot, Claim | None] = {
            self.queue.slot(f"{name}/{n}", Random(random.random()).random): None
            for n in range(2)
        }


class Schedule:
    """
    What happens, and what must hold after each step.

    Attributes:
        facts: of each marked segment: the broker ids that nothing has repaired.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.space, self.clock = MemorySpace(), Clock()
        self.marker = UnderReplicationQueue(MemoryStore(self.space), self.clock)
        self.facts: dict[SegmentKey, set[int]] = {}
        self.dead: dict[SegmentKey, set[int]] = {}
        self.names = iter(range(10**6))
        self.processes = [self.process() for _ in range(3)]
        self.zombies: list[tuple[Process, Claim]] = []

    def process(self) -> Process:
        """A new one."""
        return Process(self, f"w{next(self.names)}")

    def fault(self, verb: str) -> Fault:
        """Of a call of a worker."""
        if verb != "commit" or self.random.random() > 0.1:
            return Fault.NONE
        return self.random.choice([Fault.LOST_REQUEST, Fault.LOST_ANSWER])

    def step(self) -> None:
        """One thing happens."""
        random = self.random
        self.clock.now_ms += random.randrange(8000)
        process = random.choice(self.processes)
        slot = random.choice(list(process.slots))
        claim = process.slots[slot]
        what = random.random()
        if what < 0.2:
            self.mark()
        elif what < 0.25:
            self.kill(process)
        elif what < 0.3:
            self.marker.publish_window()
        elif what < 0.35:
            self.zombie()
        elif what < 0.38:
            self.revive()
        elif claim is None:
            process.slots[slot] = process.queue.take(slot)
        else:
            process.slots[slot] = self.end(process, claim)

    def mark(self) -> None:
        """A copy is missing, as often as not known already."""
        key, broker_id = (
            segment(self.random.randrange(SEGMENTS)),
            self.random.randrange(4),
        )
        fact = self.random.choice([LOST_COPY, Missing(Reason.ABSENT)])
        self.marker.mark(key, {broker_id: fact}, Priority.LAST_COPY, by="m")
        if key not in self.dead:
            self.facts.setdefault(key, set()).add(broker_id)

    def kill(self, process: Process) -> None:
        """The session ends; the process may wake up later and commit."""
        process.store.lose_session()
        self.zombies += [(process, one) for one in process.slots.values() if one]
        self.processes.remove(process)
        self.processes.append(self.process())

    def zombie(self) -> None:
        """A paused process commits, and changes nothing."""
        if self.zombies:
            process, claim = self.zombies.pop(self.random.randrange(len(self.zombies)))
            queue = process.queue
            call = self.random.choice([queue.done, queue.back_off, queue.release])
            with pytest.raises((SessionLostError, ClosedError)):
                call(claim)

    def end(self, process: Process, claim: Claim) -> Claim | None:
        """A repair ends, in any way; returns the claim if it goes on."""
        queue, seen = process.queue, set(claim.mark.missing)
        kind = self.random.choice(
            ["done", "done", "done", "back off", "release", "bury"]
        )
        if kind == "done":
            if not queue.done(claim):
                if self.random.random() < 0.5:
                    return claim
                # After a mark that came meanwhile.
                assert queue.release(claim)
                return None
            # Nothing that came later may have been lost.
            assert seen == self.facts.pop(claim.key)
        elif kind == "bury":
            if not queue.bury(claim, "no copy"):
                assert queue.release(claim)
                return None
            self.dead[claim.key] = self.facts.pop(claim.key)
            assert seen == self.dead[claim.key]
        elif kind == "back off":
            assert queue.back_off(claim)
        else:
            assert queue.release(claim)
        return None

    def revive(self) -> None:
        """A copy of a dead segment turned up."""
        if self.dead:
            key = self.random.choice(sorted(self.dead))
            assert self.marker.revive(key)
            self.facts[key] = self.dead.pop(key)

    def check(self) -> None:
        """The invariants."""
        marks = self.marker.list()
        assert self.facts == {key: set(mark.missing) for key, mark in marks.items()}
        assert set(self.dead) == set(self.marker.dead())
        held = [
            (claim.key, slot.name)
            for process in self.processes
            for slot, claim in process.slots.items()
            if claim is not None
        ]
        assert len(held) == len({key for key, _ in held})
        for key, name in held:
            assert name == self.marker.holder(key)
        assert len(held) == self.marker.summary().claims


@pytest.mark.parametrize("number", range(SEEDS))
def test_no_mark_is_lost_and_no_segment_has_two_holders(number: int) -> None:
    """
    Whatever the schedule: marks, ends of all kinds, killed and paused workers, lost
    answers; with faults over, the queue drains.
    """
    seed = FIRST_SEED + number
    print(f"RECOVERY_SEED={seed}")
    schedule = Schedule(seed)
    for _ in range(STEPS):
        schedule.step()
        schedule.check()
    for process in schedule.processes:
        process.store.close()
    last = UnderReplicationQueue(MemoryStore(schedule.space), schedule.clock)
    slot = last.slot("last", Random(seed).random)
    for _ in range(20 * SEGMENTS):
        schedule.clock.now_ms += 60_000
        claim = last.take(slot)
        if claim is not None:
            assert last.done(claim)
            del schedule.facts[claim.key]

    assert {} == schedule.facts
    assert {} == last.list()
