"""
Repairs of a host's nodes from other copies, as jobs: each in a thread of its own, while
its node serves.

Source: docs/operations.md, *The control socket*; docs/autorecovery.md.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pystore.broker.control_protocol import ControlCode, ControlError
from pystore.broker.ill_store import IllStore
from pystore.broker.segment_jobs import SegmentJobs
from pystore.errors import PystoreError
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.net.tls import ClientTls
from pystore.rates.host_rates import HostRates
from pystore.segments.copy import LogCopy
from pystore.segments.mend_plan import plan_mending
from pystore.segments.mend_report import progress_rows
from pystore.segments.mending import MendProgress, kept_directory, mend_open
from pystore.segments.open_copies import open_copies
from pystore.segments.pace import Pace
from pystore.segments.store_copy import StoreCopy

__all__ = ["MendJobs"]

_JOBS_KEPT = 64


@dataclass(slots=True)
class _MendJob:
    """
    One repair of one node.

    Attributes:
        node: its name.
        wanted: what was asked for: sources and segment.
        progress: how far it is.
        problem: why it ended early; empty: it did not.
        ended: set afterwards.
    """

    node: str
    wanted: tuple[tuple[str, ...], int | None]
    progress: MendProgress = field(default_factory=MendProgress)
    problem: str = ""
    ended: threading.Event = field(default_factory=threading.Event)


class MendJobs:
    """
    The repairs of one host. Any thread.

    Args:
        say: receives one line for the operator.
        rates: of the host.
    """

    def __init__(
        self, say: Callable[[str], object], rates: HostRates | None = None
    ) -> None:
        self._say = say
        self._rates = rates or HostRates()
        self._lock = threading.Lock()
        self._jobs: dict[int, _MendJob] = {}
        self._next = 1

    def start(
        self,
        node: str,
        log: ReplicaLog | IllStore,
        jobs: SegmentJobs | None,
        sources: Sequence[str],
        segment: int | None,
        *,
        bytes_per_second: int = 0,
        tls: ClientTls | None = None,
    ) -> int:
        """
        Starts a repair, and returns its number; the same one again is the one that
        runs.

        Args:
            node: its name.
            log: of the node, or its store that cannot be opened.
            jobs: those of AutoRecovery on the node, which rest meanwhile; ``None``:
                there are none.
            sources: other copies, the preferred one first; see
                `pystore.segments.open_copies`.
            segment: only the one with this base offset; ``None``: all.
            bytes_per_second: of the blocks that are moved; 0: no limit. Of the one
                that runs it is changed.
            tls: of connections to peers.

        Raises:
            ControlError: another repair of the node is under way.
            BusyError: one of AutoRecovery is.
        """
        wanted = (tuple(sources), segment)
        with self._lock:
            for number, job in self._jobs.items():
                if job.node == node and not job.ended.is_set():
                    if job.wanted == wanted:
                        job.progress.pace.change(bytes_per_second)
                        return number
                    raise ControlError(
                        ControlCode.BUSY,
                        f"{node}: repair {number} is under way: wait for its end",
                    )
            if jobs is not None:
                jobs.reserve()
            number, self._next = self._next, self._next + 1
            pace = Pace(bytes_per_second, host=self._rates.inward)
            job = self._jobs[number] = _MendJob(node, wanted, MendProgress(pace=pace))
            self._forget_old()
        threading.Thread(
            target=self._run,
            args=(job, log, jobs, tls),
            name=f"pystore-mend-{node}",
            daemon=True,
        ).start()
        return number

    def status(self, number: int) -> dict[str, Any]:
        """
        Returns how far a repair is.

        Raises:
            ControlError: there is none of this number, or it ended long ago.
        """
        with self._lock:
            job = self._jobs.get(number)
        if job is None:
            raise ControlError(
                ControlCode.BAD_REQUEST, f"there is no repair {number} in this process"
            )
        is_ended = job.ended.is_set()
        return {
            "node": job.node,
            "job": number,
            "isEnded": is_ended,
            "problem": job.problem,
            "movedBytes": job.progress.moved_bytes,
            **progress_rows(job.progress),
        }

    def _forget_old(self) -> None:
        ended = [one for one, job in self._jobs.items() if job.ended.is_set()]
        for one in ended[: max(0, len(self._jobs) - _JOBS_KEPT)]:
            del self._jobs[one]

    def _run(
        self,
        job: _MendJob,
        log: ReplicaLog | IllStore,
        jobs: SegmentJobs | None,
        tls: ClientTls | None,
    ) -> None:
        try:
            with open_copies(job.wanted[0], tls) as copies:
                self._mend(job, log, copies)
        except PystoreError as error:
            # The operator asks again; what is done stays done.
            job.problem = str(error)
        except Exception as error:
            # A defect: the job ends, and the broker goes on.
            job.problem = f"{type(error).__name__}: {error}"
        finally:
            if jobs is not None:
                jobs.release()
            job.ended.set()
        done, left = len(job.progress.done), len(job.progress.unmended)
        what = f"{done} segments repaired, {left} left"
        self._say(f"{job.node}: {what}{_because(job.problem)}")

    def _mend(
        self, job: _MendJob, log: ReplicaLog | IllStore, copies: Sequence[LogCopy]
    ) -> None:
        if isinstance(log, IllStore):
            log.mend(copies, job.wanted[1], job.progress)
            return
        root, progress = log.store.path, job.progress
        own = StoreCopy(root, self._rates.outward.use)
        progress.begin(plan_mending(own, copies, job.wanted[1]))
        steps = progress.plan.steps
        mend_open(log.store, log.fill, steps, kept_directory(root), progress)


def _because(error: str) -> str:
    return f": {error}" if error else ""
