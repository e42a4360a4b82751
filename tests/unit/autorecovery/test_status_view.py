"""
The present state, read once, on each backend.
"""

from __future__ import annotations

import pytest
from lib.autorecovery.marks import GIB
from lib.autorecovery.statuses import DEAD, RESTING, TAKEN, WAITING, busy_queue
from lib.remoting.record_stores import Space, put

from pystore.autorecovery.maintenance import MaintenanceTarget, enter
from pystore.autorecovery.pauses import PAUSES, PauseKind, PauseTarget, pause
from pystore.autorecovery.record_form import encode_form
from pystore.autorecovery.segment_key import DISABLED, SETTINGS
from pystore.autorecovery.settings import RecoverySettings
from pystore.autorecovery.status_view import (
    SwitchedOff,
    leading_auditor,
    read_activity,
    read_status,
)
from pystore.records.record_store import RecordStore

NOW = 1_000_000


def test_an_empty_store_has_an_empty_state(store: RecordStore) -> None:
    """
    With the default settings, enabled, and without an Auditor.
    """
    found = read_status(store, NOW)
    assert ({}, {}, {}) == (
        found.contents.marks,
        found.contents.claims,
        found.contents.dead,
    )
    assert (RecoverySettings(), None, "", None) == (
        found.settings,
        found.switched_off,
        found.auditor,
        found.auditor_activity,
    )
    assert ((), (), {}, {}, ()) == (
        found.workers,
        found.lost,
        found.maintenance,
        found.pauses.entries,
        found.damaged,
    )


def test_the_state_has_all_that_is_there(space: Space, store: RecordStore) -> None:
    """
    Seen by another process than the one that repairs.
    """
    queue = busy_queue(store, NOW)
    queue.disable("ops")
    pause(store, PauseTarget(PauseKind.REPAIR), NOW + 5, by="ops", now_ms=NOW)
    enter(store, MaintenanceTarget("h"), NOW + 5, by="ops", now_ms=NOW)
    found = read_status(space.open(), NOW)
    assert {RESTING, TAKEN, WAITING} == set(found.contents.marks)
    assert {TAKEN: "host-1:7/0"} == found.contents.claims
    assert [DEAD] == list(found.contents.dead)
    assert (3, 3 * GIB, 1, 1) == (
        sum(found.summary.marks.values()),
        found.summary.size,
        found.summary.claims,
        found.summary.dead,
    )
    assert SwitchedOff("ops", NOW) == found.switched_off
    assert found.pauses.stops_repair
    assert [MaintenanceTarget("h")] == list(found.maintenance)
    assert "host-1:6" == found.auditor
    activity = found.auditor_activity
    assert activity is not None
    assert ("the next look", NOW - 2000, {"unknown": 3}) == (
        activity.waits_for,
        activity.since_ms,
        activity.more,
    )
    assert [("host-1:7", "digests of broker 1")] == [
        (one.name, one.waits_for) for one in found.workers
    ]
    assert [("cluster/set/2", NOW - 60_000)] == [
        (one.text, one.since_ms) for one in found.lost
    ]
    assert () == found.damaged


def test_a_pause_that_is_over_is_not_told(store: RecordStore) -> None:
    """
    It ended by itself.
    """
    pause(store, PauseTarget(PauseKind.REPAIR), NOW, by="ops", now_ms=NOW - 1)
    assert {} == read_status(store, NOW).pauses.entries


def test_a_lost_replica_is_due_after_the_delay(store: RecordStore) -> None:
    """
    AR-R1, AR-R3: that counts from the loss, or from the end of its maintenance; what
    the Auditor noted comes first.
    """
    busy_queue(store, NOW)
    found = read_status(store, NOW)
    assert NOW - 60_000 + 600_000 == found.due_ms(found.lost[0])
    target = MaintenanceTarget("", "cluster", "set", 2)
    enter(store, target, NOW + 90_000, by="ops", now_ms=NOW)
    found = read_status(store, NOW)
    assert NOW + 90_000 + 600_000 == found.due_ms(found.lost[0])
    noted = {"since_ms": NOW - 60_000, "due_ms": NOW - 1}
    put(store, "recovery/lost/cluster/set/2", encode_form(noted))
    found = read_status(store, NOW)
    assert NOW - 1 == found.due_ms(found.lost[0])


def test_records_that_cannot_be_read_are_told_and_hide_no_other(
    store: RecordStore,
) -> None:
    """
    Of each kind one.
    """
    busy_queue(store, NOW)
    bad = [
        DEAD.mark,
        PAUSES,
        SETTINGS,
        "recovery/lost/cluster/set/3",
        "recovery/lost/host",
        "recovery/maintenance/h",
        "recovery/status/auditor",
        "recovery/status/worker/w",
    ]
    for key in bad:
        put(store, key, b"?")
    put(store, DISABLED, b"?")
    found = read_status(store, NOW)
    assert sorted(bad) == sorted(line.split()[1].rstrip(":") for line in found.damaged)
    assert SwitchedOff("", 0) == found.switched_off
    assert 1 == len(found.lost)
    assert 1 == len(found.workers)


@pytest.mark.parametrize("values", [{}, {"waits_for": 7, "since_ms": "x"}])
def test_a_worker_that_says_nothing_is_named_all_the_same(
    values: dict[str, object], store: RecordStore
) -> None:
    """
    A later program may say it in another way.
    """
    put(store, "recovery/status/worker/a%2Fb", encode_form(values))
    (worker,) = read_status(store, NOW).workers
    assert ("a/b", "", 0) == (worker.name, worker.waits_for, worker.since_ms)


def test_a_slot_says_what_it_does(store: RecordStore) -> None:
    """
    Or what it waits for; the rest of its record is told, too.
    """
    said = {"doing": "repairs", "since_ms": 5, "segment": "c/s/0"}
    put(store, "recovery/status/worker/h:7/0", encode_form(said))
    (slot,) = read_status(store, NOW).workers
    assert ("h:7/0", "repairs", 5, {"segment": "c/s/0"}) == (
        slot.name,
        slot.waits_for,
        slot.since_ms,
        slot.more,
    )


def test_the_auditor_is_the_one_that_leads_now(
    space: Space, store: RecordStore
) -> None:
    """
    With its process its record goes.
    """
    other = space.open()
    other.campaign("recovery/auditor", "host-2:9")
    assert "host-2:9" == leading_auditor(store)
    assert read_activity(store) is None
    other.close()
    assert "" == leading_auditor(store)
