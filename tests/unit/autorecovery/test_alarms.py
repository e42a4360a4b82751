"""
What of the present state needs an operator.
"""

from __future__ import annotations

import pytest
from lib.autorecovery.marks import LOST_COPY, segment
from lib.autorecovery.statuses import busy_queue
from lib.remoting.record_stores import put

from pystore.autorecovery.alarms import (
    NO_CLAIM_MS,
    AlarmKind,
    RecoveryAlarm,
    alarms_of,
)
from pystore.autorecovery.mark import Priority
from pystore.autorecovery.pauses import PauseKind, PauseTarget, pause
from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.autorecovery.record_form import encode_form
from pystore.autorecovery.status_view import read_status
from pystore.records.memory import MemoryStore
from pystore.records.ops import Hold

NOW = 1_000_000
NO_CLAIM = RecoveryAlarm(AlarmKind.NO_CLAIM, 1, NOW - NO_CLAIM_MS)


@pytest.fixture
def store() -> MemoryStore:
    """
    With an Auditor, and a segment that waits for a minute.
    """
    store = MemoryStore()
    assert store.commit([Hold("recovery/auditor", b"a")])
    queue = UnderReplicationQueue(store, lambda: NOW - NO_CLAIM_MS)
    queue.mark(segment(1), {2: LOST_COPY}, Priority.LAST_COPY, by="auditor")
    return store


def alarms(store: MemoryStore, now_ms: int = NOW) -> list[RecoveryAlarm]:
    """
    At a time.
    """
    return alarms_of(read_status(store, now_ms))


def test_a_queue_without_a_claim_for_a_minute_is_an_alarm(store: MemoryStore) -> None:
    """
    AR-R21: workers that are alive and take nothing are found.
    """
    assert [] == alarms(store, NOW - 1)
    assert [NO_CLAIM] == alarms(store)


def test_a_worker_that_said_something_new_is_no_alarm(store: MemoryStore) -> None:
    """
    Between two segments there is no claim.
    """
    said = {"waits_for": "a segment", "since_ms": NOW - 1}
    put(store, "recovery/status/worker/w", encode_form(said))
    assert [] == alarms(store)
    found = alarms(store, NOW + NO_CLAIM_MS)
    assert [RecoveryAlarm(AlarmKind.NO_CLAIM, 1, NOW - 1)] == found


@pytest.mark.parametrize("reason", ["claim", "disabled", "repair", "set", "rest"])
def test_what_is_not_taken_for_a_reason_is_no_alarm(
    reason: str, store: MemoryStore
) -> None:
    """
    The first line of the status tells it, or the list.
    """
    queue = UnderReplicationQueue(store, lambda: NOW)
    if reason == "disabled":
        queue.disable("ops")
    elif reason in ("claim", "rest"):
        claim = queue.take(queue.slot("w/0", lambda: 0.0))
        assert claim is not None
        assert reason == "claim" or queue.back_off(claim)
    else:
        names = ("cluster", "set") if reason == "set" else ("", "")
        target = PauseTarget(PauseKind(reason), *names)
        pause(store, target, NOW + 1, by="ops", now_ms=NOW)
    assert [] == alarms(store)


def test_an_old_mark_is_an_alarm(store: MemoryStore) -> None:
    """
    Older than the setting says, though it is being repaired.
    """
    queue = UnderReplicationQueue(store, lambda: NOW)
    queue.change_settings({"ageing_alarm_s": 90})
    assert queue.take(queue.slot("w/0", lambda: 0.0)) is not None
    begun = NOW - NO_CLAIM_MS
    assert [] == alarms(store, begun + 89_999)
    assert [RecoveryAlarm(AlarmKind.OLD_MARK, 1, begun)] == alarms(
        store, begun + 90_000
    )


def test_a_check_that_the_brake_stopped_is_an_alarm(store: MemoryStore) -> None:
    """
    AR-R7: no further check begins until an operator asks.
    """
    put(store, "recovery/alarm/brake", encode_form({"at_ms": 7, "what": "much"}))
    assert RecoveryAlarm(AlarmKind.BRAKE, 0, 7) in alarms(store, NOW - 1)


def test_dead_segments_unreadable_records_and_no_auditor_are_alarms() -> None:
    """
    The segments that may be lost come first.
    """
    store = MemoryStore()
    assert [RecoveryAlarm(AlarmKind.NO_AUDITOR)] == alarms(store)
    busy_queue(store, NOW)
    put(store, "recovery/maintenance/h", b"?")
    assert [
        RecoveryAlarm(AlarmKind.DEAD, 1, NOW),
        RecoveryAlarm(AlarmKind.UNREADABLE, 1),
    ] == alarms(store)
