"""
The settings of AutoRecovery, on each backend.
"""

from __future__ import annotations

import pytest
from lib.remoting.record_stores import Space, put

from pystore.autorecovery.record_form import decode_form, encode_form
from pystore.autorecovery.segment_key import SETTINGS
from pystore.autorecovery.settings import (
    RecoverySettings,
    begin_settings,
    change_settings,
    read_settings,
)
from pystore.errors import FormatError, InvalidError
from pystore.records.memory import Fault, MemoryStore
from pystore.records.ops import ABSENT
from pystore.records.record_store import RecordStore


def test_the_first_auditor_writes_the_settings_and_later_ones_find_them(
    space: Space, store: RecordStore
) -> None:
    """
    BK-A22.
    """
    assert (RecoverySettings(), ABSENT) == read_settings(store)
    first = RecoverySettings(delay_s=5)

    assert first == begin_settings(store, first)
    assert first == begin_settings(space.open(), RecoverySettings(delay_s=7))
    assert first == read_settings(space.open())[0]


def test_a_change_leaves_what_others_changed(space: Space, store: RecordStore) -> None:
    """
    And the same value again gives the record another version: an audit now (BK-A30).
    """
    change_settings(store, {"delay_s": 1})
    after = change_settings(space.open(), {"placement_repair": True})
    assert RecoverySettings(delay_s=1, placement_repair=True) == after
    before = read_settings(store)
    change_settings(store, {"delay_s": 1})
    again = read_settings(store)

    assert before[0] == again[0]
    assert before[1] < again[1]


def test_a_change_of_two_at_once_loses_none() -> None:
    """
    The slower one reads again: here its first commit is lost, then another one is in
    between.
    """
    other = MemoryStore()
    faults = [Fault.NONE, Fault.LOST_ANSWER]

    def fault(_verb: str) -> Fault:
        if len(faults) == 1:
            change_settings(other, {"brake_percent": 7})
        return faults.pop(0) if faults else Fault.NONE

    change_settings(MemoryStore(other.space, faults=fault), {"delay_s": 2})

    assert RecoverySettings(delay_s=2, brake_percent=7) == read_settings(other)[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"delay": 1},
        {"delay_s": -1},
        {"delay_s": "1"},
        {"delay_s": True},
        {"brake_percent": 101},
        {"more": {}},
        {"placement_repair": 1},
    ],
)
def test_an_invalid_change_is_refused(
    store: RecordStore, changes: dict[str, object]
) -> None:
    """
    With its name, and nothing is written.
    """
    with pytest.raises(InvalidError, match=next(iter(changes))):
        change_settings(store, changes)

    assert store.get(SETTINGS) is None


def test_settings_of_a_later_program_are_kept(store: RecordStore) -> None:
    """
    And those that an earlier one did not know have their defaults.
    """
    put(store, SETTINGS, encode_form({"delay_s": 3, "later": "x"}))

    assert 3 == change_settings(store, {"dead_after": 4}).delay_s
    found = store.get(SETTINGS)
    assert found is not None
    values = decode_form(found.value, SETTINGS).values
    assert ("x", 4, 2) == (
        values["later"],
        values["dead_after"],
        values["worker_slots"],
    )


def test_a_setting_that_there_is_no_more_is_kept_and_cannot_be_changed(
    store: RecordStore,
) -> None:
    """
    A program of before reads the record still.
    """
    put(store, SETTINGS, encode_form({"overreplicated_gc_s": 5}))

    change_settings(store, {"dead_after": 4})
    found = store.get(SETTINGS)
    assert found is not None
    values = decode_form(found.value, SETTINGS).values
    assert (5, 4) == (values["overreplicated_gc_s"], values["dead_after"])
    with pytest.raises(InvalidError, match="no setting 'overreplicated_gc_s'"):
        change_settings(store, {"overreplicated_gc_s": 6})


def test_a_damaged_record_is_refused(store: RecordStore) -> None:
    """
    With its key, and it is not overwritten.
    """
    put(store, SETTINGS, encode_form({"delay_s": "x"}))
    for call in (
        lambda: read_settings(store),
        lambda: begin_settings(store, RecoverySettings()),
        lambda: change_settings(store, {"delay_s": 1}),
    ):
        with pytest.raises(FormatError, match=f"^record {SETTINGS}: delay_s"):
            call()


def test_a_rest_doubles_up_to_its_limit() -> None:
    """
    AR-R11.
    """
    settings = RecoverySettings()

    seconds = [settings.back_off_ms(tries) // 1000 for tries in range(1, 8)]
    assert [10, 20, 40, 80, 160, 300, 300] == seconds
    assert 300_000 == settings.back_off_ms(10**6)
