"""
A log is synced beside its frames, once at a time.
"""

from __future__ import annotations

import threading

from pystore.errors import PoisonedError
from pystore.ha.slave.sync_thread import SyncThread

LONG_S = 10


class Disk:
    """A sync that ends when a test says so."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)
        self.error: Exception | None = None

    def sync(self) -> None:
        """Waits, and fails if it is to."""
        self.begun.release()
        assert self.may_end.acquire(timeout=LONG_S)
        if self.error is not None:
            raise self.error


def _until_idle(syncer: SyncThread) -> None:
    while syncer.is_busy:
        assert threading.active_count()


def test_a_sync_runs_beside_its_caller() -> None:
    """A request meanwhile is for the same sync."""
    disk = Disk()
    with SyncThread(disk.sync) as syncer:
        was_busy = syncer.is_busy
        syncer.ask()
        assert disk.begun.acquire(timeout=LONG_S)
        syncer.ask()
        assert (was_busy, syncer.is_busy) == (False, True)
        disk.may_end.release()
        _until_idle(syncer)

        assert not disk.begun.acquire(blocking=False)


def test_a_sync_that_failed_is_not_the_last_one() -> None:
    """The log knows what it means; the thread goes on."""
    disk = Disk()
    disk.error = PoisonedError("a write-back failed")
    with SyncThread(disk.sync) as syncer:
        for _ in range(2):
            syncer.ask()
            assert disk.begun.acquire(timeout=LONG_S)
            disk.may_end.release()
            _until_idle(syncer)


def test_the_end_waits_for_the_sync_under_way() -> None:
    """The log is closed after it."""
    disk = Disk()
    with SyncThread(disk.sync) as syncer:
        syncer.ask()
        assert disk.begun.acquire(timeout=LONG_S)
        threading.Timer(0.01, disk.may_end.release).start()

    assert not [one for one in threading.enumerate() if one.name == "pystore-ha-sync"]


def test_without_a_question_there_is_no_thread() -> None:
    """Most slaves have no append that waits for their disks."""
    before = threading.active_count()
    with SyncThread(lambda: None):
        assert threading.active_count() == before
