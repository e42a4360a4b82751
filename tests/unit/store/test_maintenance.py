"""
The maintenance thread stores bounds without a call of the user.
"""

from __future__ import annotations

import threading
import weakref
from pathlib import Path

from lib.store.stores import fill, message

from pystore.errors import FullError, OffsetOutOfRange
from pystore.store.maintenance import MaintenanceThread, open_log, open_store


class _Kept:
    """
    Counts calls and fails some.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.seen = threading.Semaphore(0)

    def keep(self) -> bool:
        self.calls += 1
        self.seen.release()
        if self.calls == 1:
            raise FullError("no space")
        return True


def test_maintenance_continues_after_a_failure_and_clears_the_error() -> None:
    """
    A disk is full for a time: the next call clears the error.
    """
    kept = _Kept()
    with MaintenanceThread(kept, interval_s=0.001) as maintenance:
        for _ in range(3):
            assert kept.seen.acquire(timeout=30)

    assert maintenance.error is None


def test_a_stopped_maintenance_thread_makes_no_calls() -> None:
    """
    Stopping waits for the thread; a second stop is allowed.
    """
    kept = _Kept()
    maintenance = MaintenanceThread(kept, interval_s=0.001)
    assert kept.seen.acquire(timeout=30)
    maintenance.stop()
    maintenance.stop()
    calls = kept.calls

    assert not kept.seen.acquire(timeout=0.01) or calls == kept.calls


class _Failing:
    """
    Fails each call, as with a defect.
    """

    def __init__(self, seen: threading.Semaphore) -> None:
        self.seen = seen

    def keep(self) -> bool:
        self.seen.release()
        raise ZeroDivisionError


def test_a_forgotten_object_whose_maintenance_fails_is_freed() -> None:
    """
    Neither the thread nor the frames of its last error keep it; a defect does not end
    the thread.
    """
    seen, freed = threading.Semaphore(0), threading.Event()
    kept = _Failing(seen)
    weakref.finalize(kept, freed.set)
    maintenance = MaintenanceThread(kept, interval_s=0.001)
    for _ in range(3):
        assert seen.acquire(timeout=30)
    assert isinstance(maintenance.error, ZeroDivisionError)
    del kept

    assert freed.wait(30)
    maintenance.stop()


def test_an_opened_log_closes_with_its_maintenance_thread(tmp_path: Path) -> None:
    """
    ``open_log`` gives a log that needs no more care, for reading as well.
    """
    with open_log(tmp_path / "store", segment_size=1 << 16) as log:
        fill(log, 10)
    with open_log(tmp_path / "store", mode="r") as log:
        assert log.end_offset > 0

    assert "pystore-maintenance" not in {
        thread.name for thread in threading.enumerate()
    }


def test_many_threads_read_where_the_queues_end(tmp_path: Path) -> None:
    """
    A reader there dispatches, as the maintenance thread does: each record gets one
    entry, and no thread gets the error of another.
    """
    count = 3000
    with open_store(tmp_path / "store", segment_size=1 << 20) as store:
        problems: list[BaseException] = []
        is_over = threading.Event()

        def read_on() -> None:
            at = 0
            while not (is_over.is_set() or problems):
                try:
                    assert message(3 * at).body == store.read("Topic", 0, at).body
                    at += 1
                except OffsetOutOfRange:
                    continue  # not appended yet
                except BaseException as error:
                    problems.append(error)

        readers = [threading.Thread(target=read_on) for _ in range(3)]
        for reader in readers:
            reader.start()
        with MaintenanceThread(store, interval_s=0.001) as maintenance:
            for number in range(count):
                store.log.append(message(number))
        is_over.set()
        for reader in readers:
            reader.join()

        assert [] == problems
        assert maintenance.error is None
        assert (0, count // 3) == store.queue_range("Topic", 0)
