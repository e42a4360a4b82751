"""
Maintenance of hosts and replicas, on each backend.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lib.remoting.record_stores import put

from pystore.autorecovery.maintenance import (
    MAINTENANCE,
    Maintenance,
    MaintenanceTarget,
    away_until_ms,
    enter,
    leave,
    read_maintenance,
)
from pystore.errors import InvalidError
from pystore.records.memory import Fault, MemoryStore
from pystore.records.record_store import RecordStore

HOST = MaintenanceTarget("10.0.0.1")
REPLICA = MaintenanceTarget("", "cluster", "set", 2)


def begin(store: RecordStore, target: MaintenanceTarget, until_ms: int) -> None:
    """
    Of an operator, at 1000.
    """
    enter(store, target, until_ms, by="ops", now_ms=1000)


def away(store: RecordStore, broker_id: int, host: str = "10.0.0.1") -> int:
    """
    Until when a replica of the set may be away.
    """
    return away_until_ms(
        read_maintenance(store),
        host=host,
        cluster="cluster",
        set_name="set",
        broker_id=broker_id,
    )


def test_a_replica_is_away_by_its_own_record_or_that_of_its_host(
    store: RecordStore,
) -> None:
    """
    AR-R3: the later end counts; another host and another replica are not.
    """
    assert 0 == away(store, 2)
    begin(store, REPLICA, 5000)
    assert (5000, 0) == (away(store, 2), away(store, 3))
    begin(store, HOST, 7000)
    assert (7000, 7000) == (away(store, 2), away(store, 3))
    assert (5000, 0) == (away(store, 2, "10.0.0.11"), away(store, 3, ""))
    begin(store, HOST, 4000)
    assert (5000, 4000) == (away(store, 2), away(store, 3))


def test_what_is_over_stays_known(store: RecordStore) -> None:
    """
    The end is since when the target counts as lost, if it is still away.
    """
    begin(store, HOST, 1001)
    assert {HOST: Maintenance(1001, "ops", 1000)} == read_maintenance(store)


def test_maintenance_is_left_before_its_time(store: RecordStore) -> None:
    """
    A host whose name begins alike stays as it is.
    """
    begin(store, MaintenanceTarget("10.0.0.12"), 5000)
    assert not leave(store, HOST)
    begin(store, HOST, 5000)
    assert leave(store, HOST)
    assert [MaintenanceTarget("10.0.0.12")] == list(read_maintenance(store))


def test_a_record_that_cannot_be_read_hides_no_other_and_can_be_removed(
    store: RecordStore,
) -> None:
    """
    Each has one line.
    """
    put(store, MAINTENANCE + "a/b", b"?")
    put(store, HOST.key, b"?")
    begin(store, REPLICA, 5000)
    damaged: list[str] = []
    assert [REPLICA] == list(read_maintenance(store, damaged))
    assert 2 == len(damaged)
    assert leave(store, HOST)
    assert [REPLICA] == list(read_maintenance(store))


def test_an_end_in_the_past_is_refused(store: RecordStore) -> None:
    """
    Nothing is written.
    """
    with pytest.raises(InvalidError, match="ends after it begins"):
        begin(store, HOST, 1000)
    assert {} == read_maintenance(store)


def test_a_lost_answer_is_settled() -> None:
    """
    The same commit again.
    """
    faults = [Fault.LOST_ANSWER, Fault.LOST_REQUEST]

    def next_fault(verb: str) -> Fault:
        return faults.pop() if faults and verb == "commit" else Fault.NONE

    store = MemoryStore(faults=next_fault)
    begin(store, HOST, 5000)
    assert [HOST] == list(read_maintenance(store))


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(names, names, st.integers(1, 31))
def test_a_target_is_read_from_its_text(cluster: str, name: str, number: int) -> None:
    """
    Whatever the names contain.
    """
    for target in (
        MaintenanceTarget("", cluster, name, number),
        MaintenanceTarget(name),
    ):
        assert target == MaintenanceTarget.parse(target.text)


@pytest.mark.parametrize("text", ["", "a/b", "a/b/0", "a/b/x", "/b/1", "a/b/1/2"])
def test_what_is_no_host_or_replica_is_refused(text: str) -> None:
    """
    With one line.
    """
    with pytest.raises(InvalidError):
        MaintenanceTarget.parse(text)
