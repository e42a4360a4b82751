"""
The record of what a slot of a worker does.
"""

from __future__ import annotations

import pytest
from lib.autorecovery.marks import Clock
from lib.remoting.record_stores import Space, put

from pystore.autorecovery.worker_status import (
    SlotStatus,
    StatusRecord,
    list_status,
    status_key,
)
from pystore.errors import FormatError, UnavailableError
from pystore.records.memory import Fault, MemorySpace, MemoryStore
from pystore.records.record_store import RecordStore


def record(store: RecordStore, clock: Clock, slot: str = "host:7/0") -> StatusRecord:
    """
    Of a slot.
    """
    return StatusRecord(store, slot, clock, clock)


def test_the_record_follows_at_intervals(store: RecordStore) -> None:
    """
    Each write costs requests, and wakes those who wait.
    """
    clock = Clock()
    told = record(store, clock)
    told.tell("one")
    first = store.get(status_key("host:7/0"))
    clock.now_ms += 19_000
    told.tell("two")
    assert first == store.get(status_key("host:7/0"))
    clock.now_ms += 1_000
    told.tell("two")

    (found,) = list_status(store)
    assert ("two", clock.now_ms - 1_000) == (found.doing, found.since_ms)


def test_what_stays_the_same_writes_nothing(store: RecordStore) -> None:
    """
    An idle worker sends few requests (AR-R19).
    """
    clock = Clock()
    told = record(store, clock)
    told.tell("waits")
    first = store.get(status_key("host:7/0"))
    for _ in range(5):
        clock.now_ms += 60_000
        told.tell("waits")

    assert first == store.get(status_key("host:7/0"))


def test_a_record_goes_with_its_session(space: Space, store: RecordStore) -> None:
    """
    Or when it is removed.
    """
    other, clock = space.open(), Clock()
    told, gone = record(store, clock), record(other, clock, "host:8/0")
    told.tell("waits")
    gone.tell("waits")
    other.close()
    assert ["host:7/0"] == [one.slot for one in list_status(store)]
    told.remove()
    told.remove()

    assert [] == list_status(store)


def test_a_slot_of_the_same_name_waits_until_the_other_one_is_gone(
    space: Space, store: RecordStore
) -> None:
    """
    A process that was started again before its old session ended.
    """
    other, clock = space.open(), Clock()
    record(other, clock).tell("old")
    told = record(store, clock)
    told.tell("new")
    assert ["old"] == [one.doing for one in list_status(store)]
    other.close()
    clock.now_ms += 20_000
    told.tell("new")

    assert ["new"] == [one.doing for one in list_status(store)]


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.LOST_REQUEST])
def test_a_lost_answer_is_no_error(fault: Fault) -> None:
    """
    The record is a hint.
    """
    space, clock = MemorySpace(), Clock()
    record(MemoryStore(space, faults=lambda _verb: fault), clock).tell("waits")
    store = MemoryStore(space, faults=lambda _verb: Fault.UNREACHABLE)
    other = record(store, clock, "other")
    with pytest.raises(UnavailableError):
        other.tell("waits")


def test_a_record_that_cannot_be_read_hides_no_other(store: RecordStore) -> None:
    """
    One of a later program.
    """
    record(store, Clock()).tell("waits")
    put(store, status_key("later"), b'{"form":2}')
    put(store, status_key("worse"), b"{}")

    assert ["host:7/0"] == [one.slot for one in list_status(store)]


def test_a_status_is_read_as_it_was_written() -> None:
    """
    With what was found at each copy.
    """
    status = SlotStatus("host:7/0", "check", 5, "c/s/1", "done", {1: "good", 2: "bad"})
    assert status == SlotStatus.decode(status.encode(), "key")

    raw = status.encode().replace(b'"1":"good"', b'"x":"good"')
    with pytest.raises(FormatError, match="key"):
        SlotStatus.decode(raw, "key")
