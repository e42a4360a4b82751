"""
One random schedule of a set with AutoRecovery: a few things happen in each step, and
what must always hold is checked after it; with the faults over, all is repaired.
"""

from __future__ import annotations

import os
import traceback
from collections import Counter
from functools import partial
from random import Random

from chaos.checker import violations
from chaos.history import Appended, Caused
from sim.broker import SEGMENT
from sim.broker_set import BrokerSet
from sim.clients import Clients
from sim.copies import Copies
from sim.damages import (
    DAMAGES,
    QUICK,
    RECOVERY_FAULTS,
    RecoveryFault,
    RecoverySurroundings,
    begin_late,
)
from sim.final_log import final_of
from sim.queue_offsets import queue_violations
from sim.world import FOLDER, MS, SECOND, Task, World

from pystore.autorecovery.mark import Reason
from pystore.autorecovery.segment_key import SegmentKey
from pystore.ha.insync.ack import Ack

__all__ = ["RecoveryRound"]

_FIRST_RECORDS = 40
_BODY_MAX = 12_000
_FAULTS_AT_ONCE = 2
_DRAINED_NS = 300 * SECOND


class RecoveryRound:
    """
    One set with faults.

    Args:
        seed: of all chance.
        steps: how many.

    Attributes:
        brokers: the set.
        caused: the faults that ended.
        counts: what happened.
    """

    def __init__(self, seed: int, steps: int) -> None:
        self._steps = steps
        self._draw = draw = Random(seed)
        self.world = World(draw.getrandbits(64))
        self.brokers = BrokerSet(
            self.world,
            FOLDER / f"pystore-sim-{os.getpid()}",
            brokers=3,
            controllers=draw.choice([1, 2]),
            min_in_sync=draw.choice([1, 2]),
            is_quick=True,
            recoveries=2,
        )
        for one in self.brokers.brokers.values():
            one.more["syncFromLastFile"] = "true"
        self.clients = Clients(self.brokers, draw, 0)
        self.copies = Copies(self.brokers.brokers, self.clients.known)
        self.around = RecoverySurroundings(
            self.brokers, self.clients, draw, self.copies
        )
        self.caused: list[Caused] = []
        self.counts: Counter[str] = Counter()
        self._running = 0
        self._errors: list[Exception] = []
        self._bodies = 0

    def run(self) -> list[str]:
        """
        Returns what was violated.
        """
        try:
            with self.brokers:
                found = self._run()
        except Exception as error:
            # The set did not become whole, stores differ, or a process crashed.
            is_told = isinstance(error, AssertionError) and str(error)
            found = [str(error) if is_told else traceback.format_exc()]
        return [*found, *self.brokers.defects, *self.brokers.records.broken]

    def _run(self) -> list[str]:
        self.brokers.start()
        self.brokers.await_complete()
        self.around.queue.change_settings(QUICK)
        self._append(_FIRST_RECORDS)
        self.world.run(3 * SECOND)
        for step in range(self._steps):
            self._step()
            found = [*self.copies.look(), *self.brokers.records.broken]
            if found:
                return [f"after step {step}: {one}" for one in found]
        self._end_faults()
        self._drain()
        return self._judge()

    # -- steps -----------------------------------------------------------------

    def _step(self) -> None:
        draw, what = self._draw, self._draw.random()
        if what < 0.4:
            self._append(draw.randrange(1, 5))
        elif what < 0.55:
            self._cause(draw.choice(DAMAGES))
        elif what < 0.75 and self._running < _FAULTS_AT_ONCE:
            self._cause(draw.choice(RECOVERY_FAULTS))
        self.world.run(draw.choice([20, 100, 200, 400]) * MS)
        if self._errors:
            raise self._errors[0]
        self._restart_ended()

    def _append(self, count: int) -> None:
        draw, names = self._draw, sorted(self.brokers.brokers)
        for _ in range(count):
            masters = self.clients.masters()
            broker = draw.choice(masters) if masters else None
            self._bodies += 1
            body = f"{self._bodies}-" + "x" * draw.randrange(_BODY_MAX)
            target = broker or self.brokers.brokers[draw.choice(names)]
            self.world.spawn(self._append_one(target.name, draw.choice([*Ack]), body))

    def _append_one(self, name: str, ack: Ack, body: str) -> Task:
        yield from self.clients.append(self.brokers.brokers[name], ack, body)

    def _cause(self, fault: RecoveryFault) -> None:
        self._running += 1
        begun = self.world.now_ns

        def cause() -> Task:
            try:
                yield from fault(self.around)
            except Exception as error:
                # Any error: the round ends with it.
                self._errors.append(error)
            name = getattr(fault, "__name__", "replaced")
            self.caused.append(Caused(name, begun, self.world.now_ns))
            self._running -= 1

        self.world.spawn(cause())

    def _restart_ended(self) -> None:
        """
        As a supervisor does; an operator starts again whose write-back failed, as where
        a file ended early that was not on disk yet.
        """
        for name, now in list(self.clients.known.items()):
            if now["isPoisoned"]:
                self.brokers.brokers[name].kill()
                self.brokers.brokers[name].start()
                self.clients.known.pop(name)
        for one in self.around.places():
            if one.ended and not one.is_up:
                one.start()

    # -- the end -----------------------------------------------------------------

    def _end_faults(self) -> None:
        self.world.run(300 * SECOND, lambda: not self._running or self._errors)
        if self._errors:
            raise self._errors[0]
        assert not self._running, "a fault does not end"
        for one in self.around.places():
            if not one.is_up:
                one.start()

    def _drain(self) -> None:
        """
        With the faults over, nothing lacks a good copy any more (I6).
        """
        end_ns = self.world.now_ns + _DRAINED_NS
        while True:
            self.around.verify()
            self.around.queue.kick("operator", force=True)
            self.world.run(2 * SECOND)
            self._restart_ended()
            found = self.copies.look()
            assert not found, f"in the end: {found}"
            dead = self.around.queue.dead()
            marks = self._marks(max((key.start for key in dead), default=0))
            self._replace_ill({key.start for key in dead})
            missing = self._missing({key.start for key in dead})
            if not missing and not marks and self.brokers.is_complete():
                self.counts["dead"] += len(dead)
                return
            assert self.world.now_ns < end_ns, (
                f"I6: not repaired {missing}, marked {marks}, dead {dead}, "
                f"{self._standing()}"
            )

    def _marks(self, dead: int) -> list[SegmentKey]:
        """
        Returns what is marked, but for fills that wait for a dead segment above.
        """
        return [
            key
            for key, mark in self.around.queue.list().items()
            if key.start >= dead
            or any(one.reason is not Reason.FILL for one in mark.missing.values())
        ]

    def _replace_ill(self, dead: set[int]) -> None:
        """
        An operator replaces an ill replica that lacks a segment without any good copy.
        """
        for name, now in list(self.clients.known.items()):
            lacks = {base for one, base in self.copies.damaged if one == name}
            if now["role"] == "ill" and lacks & dead:
                self.counts["replaced"] += 1
                self._cause(partial(begin_late, name=name))
        assert self.world.run(120 * SECOND, lambda: not self._running)
        if self._errors:
            raise self._errors[0]

    def _standing(self) -> str:
        names = ("role", "minOffset", "endOffset", "isFilling", "problem")
        return "; ".join(
            f"{name}: {[now[one] for one in names]}"
            for name, now in sorted(self.clients.known.items())
        )

    def _missing(self, dead: set[int]) -> list[tuple[str, int]]:
        """
        Returns the copies that are not good and should be; those of dead segments are
        not, and one that is filled waits for them with all below.
        """
        masters, known = self.clients.masters(), self.clients.known
        if not masters:
            return [("no master", 0)]
        floor = known[masters[0].name]["minOffset"]
        found = set(self.copies.missing(floor))
        for name, now in known.items():
            begin = now["minOffset"] or 0
            # The floor may have risen above its begin.
            is_filling = now["isFilling"] and begin > floor
            below = {one for one in found if one[0] == name and one[1] < begin}
            if is_filling and begin - SEGMENT not in dead:
                found.add((name, begin - SEGMENT))
            elif is_filling or name in self.copies.retained:
                # Its own retention may have deleted them.
                found -= below
        return sorted(one for one in found if one[1] not in dead)

    def _judge(self) -> list[str]:
        brokers, world = self.brokers, self.world
        for one in self.around.places():
            one.stop()
        is_over = world.run(
            60 * SECOND, lambda: not any(one.is_up for one in self.around.places())
        )
        assert is_over, "a process does not end"
        stores = [one.store for one in brokers.brokers.values()]
        # Below a segment without a good copy nothing is judged.
        dead = [key.start + SEGMENT for key in self.around.queue.dead()]
        final = final_of(stores, max(dead, default=0))
        rows = [*self.clients.rows, *self.caused]
        self._count()
        return [
            *violations(rows, final, retains=True),
            *queue_violations(stores, final),
        ]

    def _count(self) -> None:
        rows = [one for one in self.clients.rows if isinstance(one, Appended)]
        self.counts.update(
            {
                "appends": len(rows),
                "acknowledged": sum(one.is_acked for one in rows),
                "faults": len(self.caused),
                "segments": len(self.copies.right),
                "steps": self._steps,
                "virtual ms": (self.world.now_ns - 1_000 * SECOND) // MS,
            }
        )
        for one in self.caused:
            self.counts[one.name] += 1
