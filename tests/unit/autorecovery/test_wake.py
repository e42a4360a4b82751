"""
Ending the rest of marked segments.
"""

from __future__ import annotations

from lib.autorecovery.marks import Clock, Peer, segment
from lib.remoting.record_stores import put

from pystore.autorecovery.wake import wake_marks
from pystore.records.memory import Fault, MemoryStore
from pystore.records.record_store import RecordStore

KEYS = [segment(number) for number in range(3)]


def test_segments_that_rest_can_be_taken_at_once(store: RecordStore) -> None:
    """AR-R17: their tries stay; others are left alone."""
    clock = Clock()
    peer = Peer(store, clock)
    for key in KEYS[:2]:
        peer.mark(key)
    rested = peer.take()
    assert peer.queue.back_off(rested)
    held = peer.take()
    before = peer.queue.get(held.key)
    put(store, KEYS[2].mark, b"ill")

    assert 1 == wake_marks(store, [*KEYS, segment(9)], clock.now_ms)
    mark = peer.queue.get(rested.key)
    assert mark is not None
    assert (1, 0) == (mark.tries, mark.not_before_ms)
    assert before == peer.queue.get(held.key)
    assert peer.queue.done(held)


def test_a_lost_answer_wakes_once() -> None:
    """The mark shows that it was done."""
    faults: list[Fault] = []
    store = MemoryStore(
        faults=lambda verb: faults.pop() if verb == "commit" and faults else Fault.NONE
    )
    clock = Clock()
    peer = Peer(store, clock)
    peer.mark(KEYS[0])
    assert peer.queue.back_off(peer.take())
    faults.append(Fault.LOST_REQUEST)

    assert 1 == wake_marks(store, KEYS[:1], clock.now_ms)
    assert KEYS[0] == peer.take().key
