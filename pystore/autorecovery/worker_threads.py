"""
The threads of a worker: one for each slot, and one that opens the record store again
when its session was lost.

Source: AR-R13, AR-R21; BK-A63, BK-A73; docs/autorecovery.md, *The worker*.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextlib import suppress

from pystore.autorecovery.idle_wait import IdleWait
from pystore.autorecovery.repair_counts import RepairCounts
from pystore.autorecovery.replica_peers import Controllers, ReplicaPeers
from pystore.autorecovery.worker import ReplicationWorker
from pystore.clocks import clock_ms, wall_ms
from pystore.errors import ClosedError, ForkedError, PystoreError, SessionLostError
from pystore.records.record_store import RecordStore

__all__ = ["WorkerThreads"]

_AGAIN_S = 5.0
_JOIN_S = 2.0


class WorkerThreads:
    """
    A worker that runs until it is stopped. One thread starts and stops it.

    Args:
        open_store: returns a new session with the record store.
        name: of the process, such as ``host-7:4711``.
        controllers: returns a client of the controllers for one thread.
        peers: the replicas.
        say: receives one line for the operator.
        slots: their number; ``None``: as the settings say.
        again_s: between two tries after an error.

    Attributes:
        problem: what stops the work now, one line; empty: nothing.
        counts: what it has done, in all its sessions.
    """

    def __init__(
        self,
        open_store: Callable[[], RecordStore],
        name: str,
        *,
        controllers: Callable[[], Controllers],
        peers: ReplicaPeers,
        say: Callable[[str], object],
        slots: int | None = None,
        again_s: float = _AGAIN_S,
    ) -> None:
        self.problem = ""
        self.counts = RepairCounts()
        self._open_store = open_store
        self._name = name
        self._controllers = controllers
        self._peers = peers
        self._say = say
        self._slots = slots
        self._again_s = again_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="pystore-recovery", daemon=True
        )

    def start(self) -> None:
        """
        Begins to take segments; returns at once, also if the record store does not
        answer.
        """
        self._thread.start()

    def stop(self) -> None:
        """
        Stops the jobs, gives the segments back and waits for the threads. Again is
        fine.
        """
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._work()
            except PystoreError as error:
                # The record store, or its settings: the broker beside goes on.
                self._trouble(str(error))
            except Exception as error:
                # A defect, which must not end recovery for good.
                self._trouble(f"{type(error).__name__}: {error}")
            self._stopping.wait(self._again_s)

    def _trouble(self, problem: str) -> None:
        if problem != self.problem:
            self._say(f"recovery worker {self._name}: {problem}")
        self.problem = problem

    def _work(self) -> None:
        """
        Works with one session, until it is lost or the worker is stopped.
        """
        store, over = self._open_store(), threading.Event()
        threads: list[threading.Thread] = []
        try:
            worker = ReplicationWorker(
                store,
                self._name,
                controllers=self._controllers,
                peers=self._peers,
                clock_ms=wall_ms,
                now_ms=clock_ms,
                chance=random.random,
                slots=self._slots,
                counts=self.counts,
            )
            self.problem = ""
            for number in range(worker.slots):
                thread = threading.Thread(
                    target=self._run_slot,
                    args=(worker, number, over, store.reads_locally),
                    name=f"pystore-recovery-{number}",
                    daemon=True,
                )
                thread.start()
                threads.append(thread)
            while not over.wait(0.2) and not self._stopping.is_set():
                continue
        finally:
            over.set()
            for thread in threads:
                # One that waits for the record store ends with it.
                thread.join(_JOIN_S)
            store.close()
            for thread in threads:
                thread.join()

    def _run_slot(
        self,
        worker: ReplicationWorker,
        number: int,
        over: threading.Event,
        is_local: bool,
    ) -> None:
        idle = IdleWait(
            lambda: worker.glance(number), random.random, over.wait, is_local=is_local
        )
        try:
            while not over.is_set():
                self._turn(worker, number, idle, over)
        except (ClosedError, ForkedError, SessionLostError) as error:
            # The other slots cannot go on, either.
            if not over.is_set():
                self._trouble(str(error))
            over.set()
        finally:
            # Closing the store gives the segment back, too.
            with suppress(PystoreError):
                worker.end(number)

    def _turn(
        self,
        worker: ReplicationWorker,
        number: int,
        idle: IdleWait,
        over: threading.Event,
    ) -> None:
        """
        One turn of a slot, and the wait after it.
        """
        try:
            turn = worker.step(number)
            if turn.is_idle:
                idle.wait()
            else:
                over.wait(turn.wait_ms / 1000)
        except (ClosedError, ForkedError, SessionLostError):
            # For all slots.
            raise
        except PystoreError as error:
            # The record store does not answer the wait.
            self._trouble(str(error))
            over.wait(self._again_s)
        except Exception as error:
            # A defect: its segment rests, so that it does not stop all others.
            why = f"{type(error).__name__}: {error}"
            self._trouble(why)
            if not worker.failed(number, why):
                over.set()
            over.wait(self._again_s)
