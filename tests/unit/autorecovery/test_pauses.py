"""
Pauses with an end, and how the queue keeps them, on each backend.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lib.autorecovery.marks import Clock, Peer, new_marks, segment
from lib.remoting.record_stores import Space, put

from pystore.autorecovery.pauses import (
    FRESH_MS,
    PAUSES,
    PauseKind,
    Pauses,
    PauseTarget,
    TimedPause,
    end_pause,
    known_pauses,
    pause,
    read_pauses,
)
from pystore.autorecovery.record_form import decode_form, encode_form
from pystore.autorecovery.segment_key import SegmentKey, page_key
from pystore.autorecovery.window import decode_page
from pystore.errors import FormatError, InvalidError
from pystore.records.memory import Fault, MemoryStore
from pystore.records.record_store import RecordStore, StoredRecord

MINUTE = 60_000
REPAIR = PauseTarget(PauseKind.REPAIR)
SET = PauseTarget(PauseKind.SET, "cluster", "set")
HOST = PauseTarget(PauseKind.HOST, name="10.0.0.12")


@pytest.fixture
def clock() -> Clock:
    """
    A clock that the test sets.
    """
    return Clock()


@pytest.fixture
def peer(store: RecordStore, clock: Clock) -> Peer:
    """
    One process.
    """
    return Peer(store, clock)


def begin(store: RecordStore, target: PauseTarget, clock: Clock) -> None:
    """
    A pause of ten minutes.
    """
    until_ms = clock.now_ms + 10 * MINUTE
    pause(store, target, until_ms, by="ops", now_ms=clock.now_ms)


def taken(peer: Peer) -> list[SegmentKey]:
    """
    What one worker finds, in order.
    """
    keys = []
    while (claim := peer.queue.take(peer.slot)) is not None:
        keys.append(claim.key)
    return keys


def taken_later(peer: Peer, clock: Clock) -> list[SegmentKey]:
    """
    What one worker finds in some looks, with the rests between them.
    """
    keys = taken(peer)
    for _ in range(3):
        clock.now_ms += 80_000
        keys += taken(peer)
    return keys


def test_a_paused_repair_takes_nothing_and_goes_on_by_itself(
    space: Space, peer: Peer, clock: Clock
) -> None:
    """
    Another process ordered it; disable and enable are another switch.
    """
    peer.mark(segment(1))
    begin(space.open(), REPAIR, clock)
    assert peer.queue.take(peer.slot) is None
    peer.queue.disable("ops")
    peer.queue.enable()
    clock.now_ms += 10 * MINUTE - 1
    assert peer.queue.take(peer.slot) is None
    clock.now_ms += 1
    assert segment(1) == peer.take().key


def test_the_segments_of_a_paused_set_are_passed_over(
    space: Space, peer: Peer, clock: Clock
) -> None:
    """
    Also in an order that was published before; others of the cluster are repaired.
    """
    other = [segment(n, "other") for n in range(3)]
    for key in (*other, segment(1), segment(2), segment(3, "set2")):
        peer.mark(key)
    peer.queue.publish_window()
    begin(space.open(), SET, clock)
    assert {*other, segment(3, "set2")} == set(taken(peer))
    clock.now_ms += 10 * MINUTE
    assert {segment(1), segment(2)} == set(taken_later(peer, clock))


def test_without_a_window_a_paused_set_hides_no_other_one(
    peer: Peer, store: RecordStore, clock: Clock
) -> None:
    """
    A look at the queue goes on behind all segments of the paused set.
    """
    peer.queue.mark_many(new_marks(1), by="auditor")
    for number in range(100):
        peer.mark(segment(number))
    peer.mark(segment(1, "zz"))
    begin(store, SET, clock)
    found = taken_later(peer, clock)
    assert {"set-0", "zz"} == {key.set_name for key in found}


def test_the_published_order_leaves_paused_sets_out(
    peer: Peer, store: RecordStore, clock: Clock
) -> None:
    """
    So they take no place from others.
    """
    for number in range(3):
        peer.mark(segment(number))
        peer.mark(segment(number, "other"))
    begin(store, SET, clock)
    peer.queue.publish_window()
    found = store.get(page_key(0))
    assert found is not None
    page = decode_page(found.value, found.key)
    assert {segment(n, "other").text for n in range(3)} == set(page.keys)


def test_a_worker_notices_a_pause_and_its_early_end_within_twenty_seconds(
    space: Space, peer: Peer, clock: Clock
) -> None:
    """
    Until then it goes on as before; a repair that runs is finished.
    """
    for number in range(3):
        peer.mark(segment(number))
    running, operator = peer.take(), space.open()
    begin(operator, REPAIR, clock)
    clock.now_ms += FRESH_MS - 1
    peer.take()
    clock.now_ms += 1
    assert peer.queue.take(peer.slot) is None
    assert peer.queue.done(running)
    assert end_pause(operator, REPAIR, clock.now_ms)
    clock.now_ms += FRESH_MS
    peer.take()


def test_a_clock_that_steps_back_delays_no_pause(
    peer: Peer, store: RecordStore, clock: Clock
) -> None:
    """
    P34: the pauses are read again.
    """
    peer.mark(segment(1))
    assert peer.queue.release(peer.take())
    clock.now_ms -= 5 * MINUTE
    begin(store, REPAIR, clock)
    assert peer.queue.take(peer.slot) is None


def test_pauses_are_read_seldom_and_paused_segments_never(clock: Clock) -> None:
    """
    AR-R19: no request for a segment that is passed over.
    """
    read: list[str] = []

    class Counted(MemoryStore):
        def get(self, key: str) -> StoredRecord | None:
            read.append(key)
            return super().get(key)

    store = Counted()
    peer = Peer(store, clock)
    for number in range(500):
        peer.mark(segment(number))
        peer.mark(segment(number, "other"))
    peer.queue.publish_window()
    begin(store, SET, clock)
    read.clear()
    assert 500 == len(taken(peer))
    assert 1 == read.count(PAUSES)
    assert not [key for key in read if "/set/" in key]


def test_pauses_tell_who_and_until_when(store: RecordStore, clock: Clock) -> None:
    """
    The same target again has the later end; those that were over for an hour are gone.
    """
    begin(store, SET, clock)
    begin(store, HOST, clock)
    pause(store, SET, clock.now_ms + 1, by="other", now_ms=clock.now_ms)
    known, _ = read_pauses(store)
    assert {SET, HOST} == set(known.entries)
    assert TimedPause(clock.now_ms + 1, "other", clock.now_ms) == known.entries[SET]
    assert known.stops_set("cluster", "set")
    assert not known.stops_set("cluster", "other")
    assert known.stops_host("10.0.0.12")
    assert not known.stops_host("")
    assert not known.stops_repair
    clock.now_ms += 70 * MINUTE + 1
    assert {} == known.at(clock.now_ms).entries
    begin(store, PauseTarget(PauseKind.VERIFICATION), clock)
    known, _ = read_pauses(store)
    assert [PauseKind.VERIFICATION] == [one.kind for one in known.entries]
    assert known.stops_verification


def test_a_pause_has_an_end(store: RecordStore, clock: Clock) -> None:
    """
    One that is in the past is refused, and none was there.
    """
    with pytest.raises(InvalidError, match="ends after it begins"):
        pause(store, SET, clock.now_ms, by="ops", now_ms=clock.now_ms)
    assert not end_pause(store, SET, clock.now_ms)


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.LOST_REQUEST])
def test_a_lost_answer_loses_no_pause(fault: Fault, clock: Clock) -> None:
    """
    The record is read and written again.
    """
    faults = [fault]

    def next_fault(verb: str) -> Fault:
        return faults.pop() if faults and verb == "commit" else Fault.NONE

    store = MemoryStore(faults=next_fault)
    begin(store, SET, clock)
    assert {SET} == set(read_pauses(store)[0].entries)
    faults.append(fault)
    assert end_pause(store, SET, clock.now_ms)
    assert {} == read_pauses(store)[0].entries


def test_what_a_later_program_adds_to_a_pause_stays(
    store: RecordStore, clock: Clock
) -> None:
    """
    As in all records of AutoRecovery.
    """
    begin(store, SET, clock)
    found = store.get(PAUSES)
    assert found is not None
    values = dict(decode_form(found.value, PAUSES).values)
    values[SET.text] = {"until_ms": 10**13, "by": "x", "at_ms": 1, "ticket": "T-1"}
    put(store, PAUSES, encode_form(values))
    begin(store, HOST, clock)
    assert {"ticket": "T-1"} == read_pauses(store)[0].entries[SET].more


@pytest.mark.parametrize(
    "raw",
    [
        b"?",
        encode_form({"other": {"until_ms": 1, "by": "", "at_ms": 1}}),
        encode_form({"repair": {"by": "", "at_ms": 1}}),
    ],
)
def test_pauses_that_cannot_be_read_stop_nothing(
    raw: bytes, peer: Peer, store: RecordStore
) -> None:
    """
    Their end is unknown, and the status tells the record.
    """
    peer.mark(segment(1))
    put(store, PAUSES, raw)
    with pytest.raises(FormatError, match=PAUSES):
        read_pauses(store)
    assert {} == known_pauses(store).entries
    peer.take()


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(names, names)
def test_a_target_is_read_from_its_text(cluster: str, name: str) -> None:
    """
    Whatever the names contain.
    """
    for target in (
        PauseTarget(PauseKind.SET, cluster, name),
        PauseTarget(PauseKind.HOST, name=name),
        REPAIR,
    ):
        assert target == PauseTarget.parse(target.text)
    key = SegmentKey(cluster, name, 0)
    paused = Pauses({PauseTarget(PauseKind.SET, cluster, name): TimedPause(1, "", 0)})
    assert {key.set_text} == paused.set_texts


@pytest.mark.parametrize(
    "text", ["", "other", "repair/x", "set", "set/a", "set/a/b/c", "host", "host/a/b"]
)
def test_what_cannot_be_paused_is_refused(text: str) -> None:
    """
    With one line.
    """
    with pytest.raises(InvalidError):
        PauseTarget.parse(text)
