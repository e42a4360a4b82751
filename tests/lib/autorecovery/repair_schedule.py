"""
A random schedule of AutoRecovery over records in memory: workers, the Auditor and a
candidate, and an operator, among rot, lost files, forks, dead and silent replicas, no
controller or a new one, killed and paused processes, lost answers of the record store,
and jumps of time.

After each step: a segment has at most one holder; marked damage is repaired, still
marked, or buried; no action of ours lowers the number of good copies; the Auditor holds
its record, and what it newly marks is missing. With the faults over, the queue drains:
every copy that was marked is good and every file is there, or its segment is buried.
"""

from __future__ import annotations

from random import Random

from lib.autorecovery.audits import AtOnce
from lib.autorecovery.marks import ABSENT_COPY, Clock, corrupt
from lib.autorecovery.model_set import BLOCKS, ROTTEN, ModelSet, base_of
from pystore.autorecovery.auditor import Auditor
from pystore.autorecovery.auditor_term import AUDITOR
from pystore.autorecovery.dead_segment import is_offered
from pystore.autorecovery.mark import Missing, Priority, Reason, decode_mark
from pystore.autorecovery.marking import MarkOutcome
from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.autorecovery.segment_key import SegmentKey
from pystore.autorecovery.worker import ReplicationWorker
from pystore.errors import ClosedError, SessionLostError
from pystore.records.memory import Fault, MemorySpace, MemoryStore

__all__ = ["KEYS", "STEPS", "RepairSchedule", "run_schedule"]

SEGMENTS, BROKERS = 4, 3

STEPS = 200
"""Of a schedule."""

KEYS = [SegmentKey("cluster", "set", base_of(n)) for n in range(SEGMENTS)]
"""Of its segments."""

_MARKS = [key.mark for key in KEYS]
_RECORDS = [(key.mark, key.dead) for key in KEYS]

_Worker = tuple[MemoryStore, ReplicationWorker]
_Auditor = tuple[MemoryStore, Auditor]


def run_schedule(seed: int) -> None:
    """
    Runs the schedule of a seed.

    Raises:
        AssertionError: an invariant did not hold; it names the seed.
    """
    try:
        schedule = RepairSchedule(seed)
        for _ in range(STEPS):
            schedule.step()
        schedule.drain()
    except Exception as error:
        # Whatever it was: the seed repeats it.
        told = f"RECOVERY_SEED={seed} RECOVERY_SCHEDULES=1 repeats it: {error!r}"
        raise AssertionError(told) from error


class RepairSchedule:
    """
    What happens, and what must hold.

    Args:
        seed: of all that is random.

    Attributes:
        set: the controllers and the replicas.
        marker: the queue, as an operator sees it.
        told: segment and broker of the damage that was marked, and is not repaired.
    """

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._clock, self._space = Clock(), MemorySpace()
        self.set = ModelSet(BROKERS, SEGMENTS)
        self.marker = UnderReplicationQueue(MemoryStore(self._space), self._clock)
        self.marker.change_settings({"dead_after": 3})
        self.told: set[tuple[int, int]] = set()
        self._names = 0
        self._good = self.set.good_copies()
        self._workers = [self._worker() for _ in range(2)]
        self._auditors = [self._auditor() for _ in range(2)]
        self._paused: list[_Worker | _Auditor] = []

    def _worker(self) -> _Worker:
        """
        Another process.
        """
        self._names += 1
        store = MemoryStore(self._space, faults=self._fault)
        return store, self._opened(store, f"w{self._names}")

    def _opened(self, store: MemoryStore, name: str) -> ReplicationWorker:
        """
        The worker of a process.
        """
        return ReplicationWorker(
            store,
            name,
            controllers=lambda: self.set,
            peers=self.set,
            clock_ms=self._clock,
            now_ms=self._clock,
            chance=Random(self._random.random()).random,
        )

    def _auditor(self) -> _Auditor:
        """
        Another process.
        """
        self._names += 1
        store = MemoryStore(self._space, faults=self._fault)
        return store, self._candidate(store, f"a{self._names}")

    def _candidate(self, store: MemoryStore, name: str) -> Auditor:
        """
        The Auditor of a process.
        """
        return Auditor(
            store,
            self.set,
            self.set,
            AtOnce(),
            name=name,
            wall_ms=self._clock,
            steady_ms=self._clock,
        )

    def _fault(self, verb: str) -> Fault:
        """
        Of a call of a process.
        """
        if verb != "commit" or self._random.random() > 0.05:
            return Fault.NONE
        return self._random.choice([Fault.LOST_REQUEST, Fault.LOST_ANSWER])

    def step(self) -> None:
        """
        One thing happens.
        """
        random = self._random
        self._clock.now_ms += random.choice([10, 100, 1000, 30_000])
        what = random.random()
        if what < 0.06:
            self._rot()
        elif what < 0.12:
            self._fault_of_replica()
        elif what < 0.13:
            self._change_controller()
        elif what < 0.15:
            self._pause_worker()
        elif what < 0.16:
            self._pause_auditor()
        elif what < 0.18:
            self._revive()
        elif what < 0.28:
            self._audit(*random.choice(self._auditors))
        else:
            self._work(random.choice(self._workers)[1])
        self._check()

    # -- faults ----------------------------------------------------------------

    def _rot(self) -> None:
        """
        A copy is damaged; mostly a mark says so.
        """
        random = self._random
        segment, broker_id = random.randrange(SEGMENTS), random.randint(1, BROKERS)
        it, what = self.set.replicas[broker_id], random.random()
        if what < 0.5:
            block = random.randrange(BLOCKS)
            if it.copies[segment]:
                it.copies[segment][block] = ROTTEN
            fact = corrupt(block)
        elif what < 0.9:
            it.copies[segment] = []
            fact = ABSENT_COPY
        elif not it.is_good(segment):
            return
        else:
            it.fork[segment] = broker_id
            it.copies[segment] = [broker_id] * BLOCKS
            fact = Missing(Reason.DIVERGENT, "other bytes")
        self._good = self.set.good_copies()
        if random.random() < 0.8:
            facts = {broker_id: fact}
            key, rank = KEYS[segment], Priority.LAST_COPY
            outcome = self.marker.mark(key, facts, rank, by="operator")
            if outcome in (MarkOutcome.NEW, MarkOutcome.MERGED):
                self.told.add((segment, broker_id))
            elif outcome is MarkOutcome.SAME:
                # A repair that made this block good a moment ago may end without
                # it: the next audit finds the damage again, and marks it anew.
                self.told.discard((segment, broker_id))

    def _fault_of_replica(self) -> None:
        """
        One dies, returns, or gives no answer for a while.
        """
        it = self._random.choice(list(self.set.replicas.values()))
        if self._random.random() < 0.5:
            it.is_silent = not it.is_silent
        else:
            it.is_alive = not it.is_alive
            it.starts += it.is_alive
            it.jobs.clear()

    def _change_controller(self) -> None:
        """
        None leads, or another one, which does not know yet who is dead.
        """
        if self.set.no_controller:
            self.set.no_controller, self.set.may_replace = False, False
        elif self.set.may_replace:
            self.set.no_controller = True
        else:
            self.set.may_replace = True

    def _pause_worker(self) -> None:
        """
        A process is paused over its session, and one of them may wake up.
        """
        if self._paused and self._random.random() < 0.5:
            self._wake()
            return
        at = self._random.randrange(len(self._workers))
        self._paused.append(self._workers[at])
        self._workers[at][0].lose_session()
        self._workers[at] = self._worker()

    def _pause_auditor(self) -> None:
        """
        As `_pause_worker`.
        """
        if self._paused and self._random.random() < 0.5:
            self._wake()
            return
        at = self._random.randrange(len(self._auditors))
        self._paused.append(self._auditors[at])
        self._auditors[at][0].lose_session()
        self._auditors[at] = self._auditor()

    def _wake(self) -> None:
        """
        A paused process goes on, and changes nothing.
        """
        _, it = self._paused.pop()
        self._clock.now_ms += 5_000
        version = self._space.version
        for number in range(it.slots if isinstance(it, ReplicationWorker) else 1):
            try:
                if isinstance(it, Auditor):
                    it.step()
                    raise AssertionError("it has not noticed that its session is lost")
                # One that has nothing, and takes nothing, may not notice.
                assert it.step(number).is_idle
            except (ClosedError, SessionLostError):
                # As it has to.
                assert isinstance(it, Auditor) or it.claim(number) is None
        assert version == self._space.version

    # -- turns -----------------------------------------------------------------

    def _revive(self) -> None:
        """
        Dead segments are offered again, as an operator does it.
        """
        alive = {
            one: it.incarnation for one, it in self.set.replicas.items() if it.is_alive
        }
        for key, dead in self.marker.dead().items():
            if is_offered(dead, alive):
                self.marker.revive(key)

    def _work(self, worker: ReplicationWorker) -> None:
        """
        One turn; it makes no good copy a bad one.
        """
        worker.step(self._random.randrange(worker.slots))
        after = self.set.good_copies()
        assert self._good <= after
        self._good = after

    def _audit(self, store: MemoryStore, auditor: Auditor) -> None:
        """
        One turn; it marks what is missing, and nothing else.
        """
        rows = self._space.rows
        before = [any(key in rows for key in keys) for keys in _RECORDS]
        if auditor.step().leads:
            assert rows[AUDITOR].holder is store
        for segment, key in enumerate(_MARKS):
            if key in rows and not before[segment]:
                marked = decode_mark(rows[key].value, key).missing
                copies = [self.set.replicas[one].copies[segment] for one in marked]
                assert not any(copies)

    def _check(self) -> None:
        """
        The invariants.
        """
        self.told -= self._good
        # The keys alone: to decode all records would take most of the time.
        known = self._space.rows.keys()
        lost = [one for one in self.told if known.isdisjoint(_RECORDS[one[0]])]
        assert [] == lost
        claims = [
            claim.key
            for _, worker in self._workers
            for number in range(worker.slots)
            if (claim := worker.claim(number)) is not None
        ]
        assert len(claims) == len(set(claims))

    # -- the end ---------------------------------------------------------------

    def drain(self) -> None:
        """
        With the faults over: another Auditor audits, and another worker repairs.
        """
        self.set.no_controller, self.set.may_replace = False, True
        for it in self.set.replicas.values():
            it.is_silent = False
            it.is_alive, it.starts = True, it.starts + 1
            it.jobs.clear()
        for store, _ in [*self._workers, *self._auditors]:
            store.close()
        worker = self._opened(MemoryStore(self._space), "last")
        auditor = self._candidate(MemoryStore(self._space), "last auditor")
        self._revive()
        self.marker.kick("operator")
        for _ in range(2):
            assert auditor.step().leads
        assert 0 == auditor.numbers["looks_left"] == auditor.numbers["lost"]
        for _ in range(1500):
            turn = worker.step(0)
            self._clock.now_ms += 100_000 if turn.is_idle else turn.wait_ms
            if self._space.rows.keys().isdisjoint(_MARKS):
                break
        self._good = self.set.good_copies()
        self._check()
        assert {} == self.marker.list()
        assert auditor.step().leads
        absent = {
            (segment, one)
            for one, it in self.set.replicas.items()
            for segment, copy in enumerate(it.copies)
            if not copy
        }
        buried = self.marker.dead().keys()
        assert {KEYS[segment] for segment, _ in self.told | absent} <= buried
