"""
Requests for replacements, on each backend.
"""

from __future__ import annotations

import pytest
from lib.autorecovery.marks import LOST_COPY, a_mark, corrupt, segment
from lib.autorecovery.replacement_model import key_of
from lib.remoting.record_stores import Space

from pystore.autorecovery.mark import Missing, Reason, encode_mark
from pystore.autorecovery.replacement_record import (
    ASKED,
    HostDrain,
    Replacement,
    ReplacementPhase,
    ReplacementReason,
    drain_key,
    encode_replacement,
)
from pystore.autorecovery.replacement_requests import (
    ask_replacement,
    begin_drain,
    cancel_replacement,
    end_drain,
    list_drains,
    list_replacements,
    marked_segments,
)
from pystore.records.memory import Fault, MemoryStore
from pystore.records.ops import Put
from pystore.records.record_store import RecordStore

KEY = key_of("set", 2)
LOST = ReplacementReason.LOST


def test_a_replacement_is_asked_for_once(space: Space, store: RecordStore) -> None:
    """
    Whoever asks: the first reason stays; the Auditor is told by another record.
    """
    assert ask_replacement(store, KEY, LOST, by="one", now_ms=5)
    told = store.get(ASKED)
    other = ReplacementReason.WIPED
    assert not ask_replacement(space.open(), KEY, other, by="other", now_ms=6)

    assert {KEY: Replacement(LOST, 5, "one", phase_ms=5)} == list_replacements(store)
    assert told == store.get(ASKED) is not None


def test_a_cancel_is_kept_in_the_record(store: RecordStore) -> None:
    """
    Twice is fine; what is over already needs none.
    """
    ask_replacement(store, KEY, LOST, by="one", now_ms=5)
    for _ in range(2):
        assert cancel_replacement(store, KEY, "two", 6)
        assert list_replacements(store)[KEY].cancelled
    over = Replacement(LOST, 5, phase=ReplacementPhase.CLEARING)
    store.commit([Put(KEY.record, encode_replacement(over))])
    assert cancel_replacement(store, KEY, "two", 6)
    assert not list_replacements(store)[KEY].cancelled


@pytest.mark.parametrize("fault", [Fault.LOST_REQUEST, Fault.LOST_ANSWER])
def test_requests_whose_answers_were_lost_are_settled(fault: Fault) -> None:
    """
    By reading: a lost request is told as not done, or sent again.
    """
    faults = [fault]
    store = MemoryStore(
        faults=lambda verb: faults.pop() if verb == "commit" and faults else Fault.NONE
    )
    is_done = fault is Fault.LOST_ANSWER
    assert is_done == ask_replacement(store, KEY, LOST, by="one", now_ms=5)
    ask_replacement(store, KEY, LOST, by="one", now_ms=5)
    faults.append(fault)
    assert cancel_replacement(store, KEY, "one", 6)
    assert list_replacements(store)[KEY].cancelled
    begin_drain(store, "a", HostDrain(1), 1)
    faults.append(fault)
    assert end_drain(store, "a", "one", 2)
    assert {} == list_drains(store)


def test_a_host_whose_record_is_damaged_is_being_emptied(store: RecordStore) -> None:
    """
    It takes no replica until somebody has looked.
    """
    begin_drain(store, "a", HostDrain(1, "one", with_living=True), 1)
    store.commit([Put(drain_key("b"), b"{")])
    found = list_drains(store)

    assert ["a", "b"] == list(found)
    assert [True, False] == [one.with_living for one in found.values()]


def test_segments_are_at_risk_by_damage_not_by_a_fill(store: RecordStore) -> None:
    """
    A copy that is still to come is no reason to keep another one.
    """
    facts = {2: corrupt(1), 3: LOST_COPY, 4: Missing(Reason.FILL)}
    store.commit([Put(segment(1).mark, encode_mark(a_mark(facts)))])
    store.commit([Put(segment(1, "set-2").mark, encode_mark(a_mark(facts)))])

    assert {segment(1).text: {2, 3}} == marked_segments(store, "cluster", "set")
