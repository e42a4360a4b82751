"""
The thread of an Auditor over a record store that fails.
"""

from __future__ import annotations

import threading

from lib.autorecovery.audits import ToldCluster, a_set
from lib.autorecovery.marks import Clock
from lib.broker_process import until

from pystore.autorecovery.auditor_thread import AuditorThread
from pystore.errors import SessionLostError
from pystore.records.memory import MemoryStore
from pystore.records.record_store import RecordStore


class LostStore(MemoryStore):
    """
    A session that is opened, and lost before its first answer.
    """

    def get(self, key: str) -> None:  # noqa: ARG002
        """
        Raises that it is lost.
        """
        raise SessionLostError("the session is lost")


def test_a_problem_that_lasts_is_told_once_and_its_end_is_the_auditor() -> None:
    """
    AR-R21: each try opens the store anew, and says the same.
    """
    said: list[str] = []
    tries = threading.Semaphore(0)
    works = threading.Event()

    def open_store() -> RecordStore:
        tries.release()
        return MemoryStore() if works.is_set() else LostStore()

    cluster = ToldCluster(Clock(1_700_000_000_000), a_set())
    thread = AuditorThread(
        open_store,
        "host:1",
        controllers=cluster,
        peers=cluster,
        say=said.append,
        again_s=0.01,
    )
    thread.start()
    for _ in range(5):
        assert tries.acquire(timeout=30)
    assert ["Auditor host:1: the session is lost"] == said
    assert "the session is lost" == thread.problem
    works.set()
    until(lambda: thread.leads)
    assert "" == thread.problem
    thread.stop()
    assert ["host:1 is the Auditor", "host:1 is the Auditor no more"] == said[1:]
