"""
What happens in the background of a store is heard, once for each change.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest
from lib.store.stores import SEGMENT, fill, kill_while, message

from pystore.core.results import Ends
from pystore.errors import CorruptError, FullError, PoisonedError, StorageError
from pystore.events import (
    DamageFound,
    LogCut,
    LogSynced,
    MaintenanceFailed,
    MaintenanceResumed,
    SegmentsDeleted,
    SegmentSealed,
    StoreClosed,
    StoreEvent,
    StoreOpened,
    StorePoisoned,
    StoreRecovered,
    StrandedSegmentsRemoved,
)
from pystore.store.commit_log import CommitLog
from pystore.store.maintenance import MaintenanceThread, open_store
from pystore.store.monitor import Health, Monitor
from pystore.store.retention import Retention
from pystore.store.store import Store


class _Clock:
    """
    A clock that the test moves.
    """

    def __init__(self) -> None:
        self.ms = 1000

    def __call__(self) -> int:
        return self.ms


def _ends(published: int = 100, synced: int = 100, *, poisoned: bool = False) -> Ends:
    return Ends(0, published, published, synced, 0, 0, SEGMENT, None, 1, poisoned)


def _monitor() -> tuple[Monitor, list[StoreEvent], _Clock]:
    events: list[StoreEvent] = []
    clock = _Clock()
    monitor = Monitor("/s", events.append, now_ms=clock, time_ms=clock)
    return monitor, events, clock


def _fail(monitor: Monitor, error: Exception) -> None:
    with pytest.raises(type(error)), monitor.keeping(_ends, is_whole=True):
        raise error


def _succeed(monitor: Monitor, *, is_whole: bool = True) -> None:
    with monitor.keeping(_ends, is_whole=is_whole):
        pass


def test_a_failure_that_lasts_is_one_event_and_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """
    A maintenance each second must not fill the log of a program.
    """
    monitor, events, _ = _monitor()
    with caplog.at_level(logging.INFO, "pystore"):
        for _ in range(5):
            _fail(monitor, FullError("no space", errno=28))
        for _ in range(5):
            _succeed(monitor)

    assert [
        MaintenanceFailed(path="/s", time_ms=1000, reason="no space"),
        MaintenanceResumed(path="/s", time_ms=1000),
    ] == events
    assert [
        ("WARNING", "/s: maintenance fails, and tries again: no space"),
        ("WARNING", "/s: maintenance works again"),
    ] == [(record.levelname, record.message) for record in caplog.records]


def test_another_kind_of_failure_is_another_event() -> None:
    """
    The same error with another text, such as other free bytes, is none.
    """
    monitor, events, _ = _monitor()
    for error in (
        StorageError("a", errno=5),
        StorageError("b", errno=5),
        StorageError("c", errno=24),
        ValueError("d"),
    ):
        _fail(monitor, error)

    assert ["a", "c", "d"] == [e.reason for e in events if hasattr(e, "reason")]


def test_the_log_alone_does_not_end_a_failure_of_its_queues() -> None:
    """
    A replica that catches up keeps only its log for some seconds.
    """
    monitor, events, _ = _monitor()
    _fail(monitor, StorageError("queues"))
    _succeed(monitor, is_whole=False)
    assert "StorageError: queues" == monitor.health(_ends(), None).keep_error

    _succeed(monitor)
    assert [MaintenanceFailed, MaintenanceResumed] == [type(e) for e in events]


def test_a_poisoned_log_is_told_once_however_it_is_noticed() -> None:
    """
    By an error of the maintenance, or by the ends of the log.
    """
    monitor, events, _ = _monitor()
    _fail(monitor, PoisonedError("write-back", offset=7))
    _fail(monitor, PoisonedError("write-back", offset=7))
    health = monitor.health(_ends(100, 7, poisoned=True), None)

    assert [MaintenanceFailed, StorePoisoned] == sorted(
        (type(e) for e in events), key=lambda kind: kind.__name__
    )
    assert (True, False) == (health.is_poisoned, health.is_good)


def test_damage_is_told_once_for_an_offset() -> None:
    """
    Each second finds it again.
    """
    monitor, events, _ = _monitor()
    for offset in (5, 5, 9, 5):
        _fail(monitor, CorruptError(f"bad at {offset}", offset=offset))

    assert [5, 9] == [e.offset for e in events if isinstance(e, DamageFound)]


def test_health_says_how_far_disk_and_queues_are_behind() -> None:
    """
    The age grows only while something is not on disk.
    """
    monitor, _, clock = _monitor()
    _succeed(monitor)
    clock.ms += 5000

    assert Health(
        is_poisoned=False,
        kept_ms=1000,
        keep_error=None,
        unsynced_bytes=60,
        sync_age_ms=5000,
        undispatched_bytes=30,
    ) == monitor.health(_ends(160, 100), 130)
    assert 0 == monitor.health(_ends(160, 160), 160).sync_age_ms
    clock.ms += 250
    assert 250 == monitor.health(_ends(161, 160), None).sync_age_ms


def test_an_error_of_a_sink_is_logged_and_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """
    A store works also if a program's callback does not.
    """

    def fail(_event: StoreEvent) -> None:
        raise RuntimeError("mine")

    monitor = Monitor("/s", fail)
    _succeed(monitor)
    monitor.note_deleted(2, 100)

    assert "on_event failed" in caplog.text
    assert "RuntimeError: mine" in caplog.text


def _kinds(events: list[StoreEvent]) -> list[str]:
    return [type(event).__name__ for event in events]


def test_every_fact_of_the_life_of_a_store_is_an_event(tmp_path: Path) -> None:
    """
    Opened, synced, sealed, cut, retained, closed; then recovered, with a cut.
    """
    root, events = tmp_path / "store", list[StoreEvent]()
    with Store(root, segment_size=SEGMENT, on_event=events.append) as store:
        fill(store.log, 1000)
        store.keep()
        store.retain(Retention(reserved_hours=0), 2**60)
        fill(store.log, 1)
        store.cut(store.log.min_offset)
    assert [
        StoreOpened,
        LogSynced,
        SegmentSealed,
        SegmentsDeleted,
        LogCut,
        StoreClosed,
    ] == [type(e) for e in events]
    assert {str(root)} == {event.path for event in events}
    assert StoreOpened(
        path=str(root), time_ms=events[0].time_ms, min_offset=0, end_offset=0,
        is_new=True,
    ) == events[0]  # fmt: skip

    kill_while(root, lambda log: fill(log, 3))
    events.clear()
    with CommitLog(root, on_event=events.append):
        pass
    assert ["StoreRecovered", "StoreOpened", "StoreClosed"] == _kinds(events)
    assert [3] == [one.records for one in events if isinstance(one, StoreRecovered)]


def test_a_cut_at_the_end_of_the_log_is_no_event(tmp_path: Path) -> None:
    """
    As a slave makes it whose master agrees with its whole log.
    """
    events = list[StoreEvent]()
    with Store(tmp_path / "s", segment_size=SEGMENT, on_event=events.append) as store:
        fill(store.log, 3)
        store.cut(store.log.end_offset)
    assert "LogCut" not in _kinds(events)


def test_removed_stranded_segments_are_an_event(tmp_path: Path) -> None:
    """
    As a killed RocketMQ leaves them (A2).
    """
    root, events = tmp_path / "store", list[StoreEvent]()
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 3)
    stranded = f"{2 * SEGMENT:020}"
    (root / "commitlog" / stranded).write_bytes(bytes(SEGMENT))
    with CommitLog(root, on_event=events.append):
        pass

    (event,) = [one for one in events if isinstance(one, StrandedSegmentsRemoved)]
    assert (stranded,) == event.segments
    assert stranded in event.text


def test_a_store_that_is_refused_as_damaged_is_an_event(tmp_path: Path) -> None:
    """
    A supervisor that opens it again and again has the reason in its log.
    """
    root, events = tmp_path / "store", list[StoreEvent]()
    kill_while(root, lambda log: (fill(log, 10), log.keep()))
    with (root / "commitlog" / f"{0:020d}").open("r+b") as segment:
        segment.write(bytes(SEGMENT))
    with pytest.raises(CorruptError) as refusal:
        CommitLog(root, on_event=events.append)

    assert ["DamageFound"] == _kinds(events)
    assert isinstance(events[0], DamageFound)
    assert refusal.value.offset == events[0].offset


def test_a_maintenance_that_fails_in_the_background_is_heard(tmp_path: Path) -> None:
    """
    ``consumequeue`` is a file: stands for no inodes, no rights, no descriptors.
    """
    root, events = tmp_path / "bg", list[StoreEvent]()
    with open_store(root, segment_size=SEGMENT, on_event=events.append) as store:
        shutil.rmtree(root / "consumequeue", ignore_errors=True)
        (root / "consumequeue").touch()
        store.log.append(message(1))
        with MaintenanceThread(store, interval_s=0.001):
            while store.health.keep_error is None:
                pass
        health = store.health
        assert not health.is_good
        assert 0 < store.log.end_offset == health.undispatched_bytes
        (root / "consumequeue").unlink()
        store.keep()
        assert store.health.is_good
        assert 0 == store.health.undispatched_bytes

    told = [event for event in events if "Maintenance" in type(event).__name__]
    assert [MaintenanceFailed, MaintenanceResumed] == [type(e) for e in told]
    assert str(root) in told[0].text
