"""
The orders of AutoRecovery to one node, as jobs: each in a thread of its own, while the
node serves.

The same claim again is the same job. Jobs of one segment wait for each other. What was
copied of a segment stays when its job ends early, so the next job goes on with it.

Source: AR-R6, AR-R8; docs/autorecovery.md, *Orders to a replica*.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from pystore.broker.ill_store import IllStore
from pystore.clocks import clock_ms
from pystore.errors import BusyError, ClosedError, PystoreError, UnavailableError
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.rates.host_rates import HostRates
from pystore.segments.copy import LogCopy
from pystore.segments.order import (
    OrderAction,
    OrderOutcome,
    OrderProgress,
    SegmentOrder,
)
from pystore.segments.order_run import JobStopped, OrderHooks, carry_out
from pystore.segments.order_target import OpenTarget, OrderTarget
from pystore.segments.pace import Pace
from pystore.segments.peer_copy import PeerCopy
from pystore.store.mend import forget_pulled

__all__ = ["SegmentJobs"]

_RUNNING_MAX = 64
_WAITING_MAX = 48  # beside them: the segment that is next must not find all taken
_JOBS_KEPT = 256
_PULLS_AT_ONCE = 4
_LOOK_S = 0.05
_TURN_MS = 600_000
_CLOSE_S = 60.0


@dataclass(slots=True)
class _Job:
    """
    One order.

    Attributes:
        order: what is to be done.
        pace: of the bytes that it moves.
        progress: how far it is.
        stopping: set to end it.
        sources: connections that it has.
        thread: that works on it.
        is_waiting: a fill that has its bytes waits for the segment above it.
    """

    order: SegmentOrder
    pace: Pace
    progress: OrderProgress = field(
        default_factory=lambda: OrderProgress(OrderOutcome.RUNNING)
    )
    stopping: threading.Event = field(default_factory=threading.Event)
    sources: list[PeerCopy] = field(default_factory=list)
    thread: threading.Thread | None = None
    is_waiting: bool = False

    @property
    def is_running(self) -> bool:
        """
        Whether it has not ended.
        """
        return self.progress.outcome is OrderOutcome.RUNNING


class SegmentJobs:
    """
    The jobs of one node. Any thread; no call waits for a disk or a peer.

    Args:
        log: of the node, or its store that cannot be opened yet.
        open_peer: opens the copy at an address.
        say: receives one line for the operator about each repair.
        now_ms: a clock that never steps back.
        turn_ms: how long a segment waits for the one above it.
        rates: of the host, which share what jobs read and move.
    """

    def __init__(
        self,
        log: ReplicaLog | IllStore,
        open_peer: Callable[[str], PeerCopy],
        say: Callable[[str], object] = bool,
        now_ms: Callable[[], int] = clock_ms,
        turn_ms: int = _TURN_MS,
        *,
        rates: HostRates | None = None,
    ) -> None:
        self._log = log
        self._open_peer = open_peer
        self._say = say
        self._now_ms = now_ms
        self._turn_ms = turn_ms
        self._rates = rates or HostRates()
        self._lock = threading.Lock()
        self._jobs: dict[str, _Job] = {}
        self._bases: set[int] = set()
        self._pulling = threading.BoundedSemaphore(_PULLS_AT_ONCE)
        self._installing = threading.BoundedSemaphore()
        self._is_closed = self._is_reserved = False

    def start(self, order: SegmentOrder) -> OrderProgress:
        """
        Starts a job, or joins the one of the same claim, whose rate is changed; returns
        how far it is. A fill also joins one of the same segment that has all bytes and
        waits for the segment above it. The rate at which the host serves is that of the
        last order.

        Raises:
            BusyError: too many run; try again later.
            ClosedError: the node is being closed.
        """
        with self._lock:
            if self._is_closed:
                raise ClosedError("this broker is being closed")
            self._rates.serve_at(order.serve_bytes_per_second)
            job = self._jobs.get(order.claim) or self._waiting(order)
            if job is not None:
                self._jobs[order.claim] = job
                job.pace.change(order.bytes_per_second)
                return job.progress
            if self._is_reserved:
                raise BusyError("an operator repairs this store: order it later")
            busy = sum(not one.is_waiting for one in self._running())
            if busy >= _RUNNING_MAX:
                raise BusyError(f"{_RUNNING_MAX} jobs run: order this one later")
            inward = self._rates.inward
            pace = Pace(order.bytes_per_second, self._now_ms, host=inward)
            job = _Job(order, pace)
            self._jobs[order.claim] = job
            self._forget_old()
            job.thread = threading.Thread(
                target=self._run,
                args=(job,),
                name=f"pystore-segment-{order.base}",
                daemon=True,
            )
            job.thread.start()
            return job.progress

    def opened(self, log: ReplicaLog) -> None:
        """
        The store is open now: jobs that begin are for it. Those that ended are known
        still, and those that run change nothing any more.
        """
        self._log = log

    def progress(self, claim: str) -> OrderProgress:
        """
        Returns how far a job is; of one that is not known, that it failed.
        """
        with self._lock:
            job = self._jobs.get(claim)
        if job is None:
            return OrderProgress(
                OrderOutcome.FAILED, "this process of the broker knows no such job"
            )
        return job.progress

    def stop(self, claim: str) -> None:
        """
        Ends a job at its next block; again, or one that is not known, is fine.
        """
        with self._lock:
            job = self._jobs.get(claim)
        if job is not None:
            self._end(job)

    def reserve(self) -> None:
        """
        Lets no job begin until `release`: another repair is to work on the store.

        Raises:
            BusyError: jobs run, or it is reserved already.
        """
        with self._lock:
            running = len(self._running())
            if running or self._is_reserved:
                what = f"{running} jobs of AutoRecovery run" if running else "it runs"
                raise BusyError(f"another repair is under way ({what}): wait for it")
            self._is_reserved = True

    def release(self) -> None:
        """
        Lets jobs begin again.
        """
        with self._lock:
            self._is_reserved = False

    def close(self) -> None:
        """
        Ends all jobs, and waits for them. Idempotent.
        """
        with self._lock:
            self._is_closed = True
            jobs = self._running()
        for one in jobs:
            self._end(one)
        for one in jobs:
            if one.thread is not None:
                one.thread.join(_CLOSE_S)

    def _running(self) -> list[_Job]:
        # One that other claims joined is there under several names.
        found = {id(one): one for one in self._jobs.values() if one.is_running}
        return list(found.values())

    def _may_wait(self, job: _Job) -> bool:
        """
        Whether a job may wait without a worker; if not, its worker ends it after a
        while, and what it copied stays.
        """
        with self._lock:
            waiting = sum(one.is_waiting for one in self._running())
            job.is_waiting = waiting < _WAITING_MAX
        return job.is_waiting

    def _waiting(self, order: SegmentOrder) -> _Job | None:
        """
        Returns the fill that waits, of the same segment.
        """
        if order.action is not OrderAction.FILL:
            return None
        for one in self._jobs.values():
            is_same = one.is_running and one.order.base == order.base
            if is_same and one.is_waiting and not one.stopping.is_set():
                return one
        return None

    def _end(self, job: _Job) -> None:
        job.stopping.set()
        for one in list(job.sources):
            # It may wait for bytes of a peer that sends none.
            one.abort()

    def _forget_old(self) -> None:
        ended = [name for name, one in self._jobs.items() if not one.is_running]
        for name in ended[: max(0, len(self._jobs) - _JOBS_KEPT)]:
            del self._jobs[name]

    # -- the threads of jobs ---------------------------------------------------

    def _run(self, job: _Job) -> None:
        log = self._log
        try:
            with self._alone(job):
                log = self._log
                outcome, detail = carry_out(
                    job.order,
                    _target_of(log),
                    lambda address: self._opened(job, address),
                    self._hooks(job),
                )
                # A job that failed is ordered again, and goes on with what it copied.
                forget_pulled(_target_of(log).path, job.order.base)
        except JobStopped:
            # What is done stays done.
            outcome, detail = OrderOutcome.FAILED, "the job was stopped"
        except PystoreError as error:
            # The worker orders it again, here or elsewhere.
            outcome, detail = OrderOutcome.FAILED, str(error)
        except Exception as error:
            # A defect: the job ends, and the broker goes on.
            outcome, detail = OrderOutcome.FAILED, f"{type(error).__name__}: {error}"
        finally:
            for one in job.sources:
                one.close()
        self._tell(job, outcome=outcome, detail=" ".join(detail.split()))
        if outcome is OrderOutcome.REPAIRED and isinstance(log, IllStore):
            # Perhaps it can be opened now.
            log.mended()
        if outcome not in (OrderOutcome.WHOLE, OrderOutcome.GONE):
            order = job.order
            what = f"segment {order.base}: {order.action.value}: {outcome.value}"
            # What it was before, and is not any more.
            before = "; before" if outcome is OrderOutcome.REPAIRED else ""
            self._say(f"{what}{before}: {detail}" if detail else what)

    def _tell(
        self,
        job: _Job,
        *,
        outcome: OrderOutcome = OrderOutcome.RUNNING,
        detail: str = "",
        blocks: Sequence[int] | None = None,
        size: int = 0,
        digest: tuple[str, bool] | None = None,
    ) -> None:
        """
        Only the thread of the job changes its progress.
        """
        now = job.progress
        job.progress = OrderProgress(
            outcome,
            detail,
            now.bad_blocks if blocks is None else tuple(blocks),
            now.moved_bytes + size,
            *(digest or (now.digest, now.is_sealed)),
        )

    def _opened(self, job: _Job, address: str) -> LogCopy:
        found = self._open_peer(address)
        job.sources.append(found)
        return found

    def _hooks(self, job: _Job) -> OrderHooks:
        until_ms = 0

        def moved(size: int) -> None:
            self._tell(job, size=size)
            self._pause(job, 0)
            job.pace.spend(size, partial(self._pause, job))

        def wait() -> None:
            nonlocal until_ms
            now_ms = self._now_ms()
            until_ms = until_ms or now_ms + self._turn_ms
            if now_ms > until_ms:
                raise UnavailableError(
                    "the segment above it has not come in time: order it again"
                )
            if not job.is_waiting and self._may_wait(job):
                self._tell(job, detail="the segment above it is not there yet")
            self._pause(job, _LOOK_S)

        def read(size: int) -> None:
            self._pause(job, 0)
            self._rates.outward.use(size, partial(self._pause, job))

        return OrderHooks(
            read=read,
            moved=moved,
            found=lambda blocks: self._tell(job, blocks=blocks),
            digested=lambda *digest: self._tell(job, digest=digest),
            wait=wait,
            pulling=lambda: self._turn(job, self._pulling),
            installing=lambda: self._turn(job, self._installing),
        )

    @staticmethod
    def _pause(job: _Job, seconds: float) -> None:
        if job.stopping.wait(seconds):
            raise JobStopped

    @contextmanager
    def _turn(self, job: _Job, turn: threading.BoundedSemaphore) -> Iterator[None]:
        while not turn.acquire(timeout=_LOOK_S):
            self._pause(job, 0)
        try:
            yield
        finally:
            turn.release()

    @contextmanager
    def _alone(self, job: _Job) -> Iterator[None]:
        """
        Waits until no other job is at the segment.
        """
        base = job.order.base
        while True:
            with self._lock:
                if base not in self._bases:
                    self._bases.add(base)
                    break
            self._pause(job, _LOOK_S)
        try:
            yield
        finally:
            with self._lock:
                self._bases.discard(base)


def _target_of(log: ReplicaLog | IllStore) -> OrderTarget:
    if isinstance(log, IllStore):
        return log.target
    return OpenTarget(log.store, log.fill)
