"""
The walk of a worker over the window.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from lib.autorecovery.marks import a_mark, new_marks, segment

from pystore.autorecovery.mark import encode_mark
from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.autorecovery.search import WorkSearch
from pystore.autorecovery.segment_key import LOCKS, MARKS, page_key
from pystore.autorecovery.window import PAGE_KEYS, encode_page, pages_of
from pystore.records.memory import MemoryStore
from pystore.records.ops import Delete, Put
from pystore.records.record_store import StoredRecord

SCAN_REST_MS = 80_000
NOTICED_MS = 20_000


class Counted(MemoryStore):
    """
    A store that notes its calls, and is as one that asks a server.
    """

    reads_locally = False

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def get(self, key: str) -> StoredRecord | None:
        """
        Noted with its key.
        """
        self.calls.append(key)
        return super().get(key)

    def scan(
        self, prefix: str = "", after: str = "", limit: int | None = None
    ) -> list[StoredRecord]:
        """
        Noted with its prefix.
        """
        self.calls.append(prefix)
        assert limit is not None
        return super().scan(prefix, after, limit)

    def publish(self, texts: list[str], equal: int, issue: int) -> None:
        """
        Writes the pages of a window.
        """
        for number, page in enumerate(pages_of(texts, equal, issue, 0)):
            assert self.commit([Put(page_key(number), encode_page(page))])

    def mark(self, numbers: range) -> None:
        """
        Writes marks.
        """
        for number in numbers:
            assert self.commit([Put(segment(number).mark, encode_mark(a_mark()))])


TEXTS = [segment(n).text for n in range(3 * PAGE_KEYS)]


def taken(search: WorkSearch, now_ms: int, is_free: Callable[[str], bool]) -> str:
    """
    The first candidate that is free; empty: there is none.
    """
    for text, _ in search.look(now_ms):
        if is_free(text):
            search.hit()
            return text
    return ""


def test_one_worker_takes_all_and_the_urgent_ones_first() -> None:
    """
    Each key once, without a miss.
    """
    store = Counted()
    store.publish(TEXTS, 10, 1)
    search = WorkSearch(store, Random(4).random)
    left = set(TEXTS)
    order = []
    while text := taken(search, 0, left.__contains__):
        left.remove(text)
        order.append(text)

    assert set() == left
    assert set(TEXTS[:10]) == set(order[:10])
    assert order[:10] != TEXTS[:10]
    assert set(TEXTS[:PAGE_KEYS]) == set(order[:PAGE_KEYS])


def test_workers_begin_at_places_of_their_own() -> None:
    """
    Among the equally urgent keys of all pages.
    """
    store = Counted()
    store.publish(TEXTS, len(TEXTS), 1)
    firsts = {
        taken(WorkSearch(store, Random(seed).random), 0, bool) for seed in range(50)
    }

    assert len(firsts) > 40
    assert 3 == len({TEXTS.index(text) // PAGE_KEYS for text in firsts})


def test_a_worker_turns_the_page_after_a_few_misses() -> None:
    """
    It costs two requests to miss, and a page that is done has two hundred keys.
    """
    store = Counted()
    store.publish(TEXTS, 1, 1)
    search = WorkSearch(store, Random(5).random)
    third = set(TEXTS[2 * PAGE_KEYS :])
    looked: list[str] = []

    def is_free(text: str) -> bool:
        looked.append(text)
        return text in third

    found = taken(search, 0, is_free)
    assert found in third
    assert len(looked) <= 8
    assert taken(search, 0, is_free) in third
    assert len(looked) <= 9


def test_a_look_at_a_stale_window_is_bounded_and_the_next_ones_cost_one_page() -> None:
    """
    An idle worker asks little, until the window is published again.
    """
    store = Counted()
    store.publish(TEXTS, len(TEXTS), 1)
    search = WorkSearch(store, Random(6).random)
    for _ in range(6):
        store.calls.clear()
        assert not taken(search, 0, lambda _: False)
        assert len(store.calls) <= 9
    for now_ms, calls in ((1, []), (NOTICED_MS, [page_key(0)])):
        store.calls.clear()
        assert not taken(search, now_ms, lambda _: False)
        assert calls == store.calls

    store.publish(TEXTS, len(TEXTS), 2)
    assert not taken(search, NOTICED_MS + 1, bool)
    assert taken(search, 2 * NOTICED_MS, bool)


def test_a_busy_worker_notices_urgent_segments() -> None:
    """
    In the middle of its page; without a new window it goes on where it was.
    """
    store = Counted()
    store.publish(TEXTS, len(TEXTS), 1)
    search = WorkSearch(store, Random(10).random)
    first = taken(search, 0, bool)
    second = taken(search, NOTICED_MS, bool)
    assert TEXTS.index(second) == (TEXTS.index(first) + 1)
    urgent = segment(9999).text
    store.publish([urgent, *TEXTS], 1, 2)

    assert taken(search, NOTICED_MS + 1, bool) in TEXTS
    assert urgent == taken(search, 2 * NOTICED_MS, bool)


@pytest.mark.parametrize("has_window", [False, True])
def test_without_a_hit_in_the_window_a_part_of_the_queue_is_read(
    *, has_window: bool
) -> None:
    """
    With the records: nothing is read twice. It goes on where it was, and begins again
    at the end; without a hit it rests.
    """
    store = Counted()
    if has_window:
        store.publish([], 0, 1)
    store.mark(range(50))
    search = WorkSearch(store, Random(7).random)
    left = {segment(n).text for n in range(50)}
    while text := taken(search, 0, left.__contains__):
        left.remove(text)

    assert set() == left
    scans = store.calls.count(MARKS)
    assert 4 <= scans <= 6
    for _ in range(9):
        assert not taken(search, 1, lambda _: False)
    assert scans + 1 >= store.calls.count(MARKS)
    scans = store.calls.count(MARKS)
    assert taken(search, SCAN_REST_MS, bool)
    assert scans < store.calls.count(MARKS)


def test_an_empty_queue_is_scanned_at_intervals() -> None:
    """
    Also after the clock jumped back by an hour.
    """
    store = Counted()
    search = WorkSearch(store, Random(8).random)
    now_ms = 10_000_000
    for second in range(600):
        assert not taken(search, now_ms + second * 1000, bool)

    assert 8 <= store.calls.count(MARKS) <= 14
    store.mark(range(1))
    assert taken(search, now_ms - 3_600_000, bool)


def test_a_lock_that_was_met_and_has_ended_is_found_by_a_glance() -> None:
    """
    One request, and another segment is scanned then, too; the window is looked at in
    between.
    """
    store = Counted()
    store.mark(range(2))
    search = WorkSearch(store, Random(7).random)
    locked = {segment(n).text for n in range(2)}
    for text in locked:
        assert store.commit([Put(f"{LOCKS}{text}", b"")])
    for text, _ in search.look(0):
        search.met_lock(text)
    store.calls.clear()
    found = [search.glance(0) for _ in range(4)]
    assert [False] * 4 == found
    assert {page_key(0), *(f"{LOCKS}{text}" for text in locked)} == set(store.calls)
    assert 4 == len(store.calls)

    for text in locked:
        assert store.commit([Delete(f"{LOCKS}{text}")])
    assert search.glance(0)
    store.calls.clear()
    free = taken(search, 0, locked.__contains__)
    assert free in locked
    assert [] == store.calls
    assert taken(search, 0, (locked - {free}).__contains__)


def test_a_glance_that_asks_no_server_is_at_window_and_lock() -> None:
    """
    Each time.
    """
    store = Counted()
    store.reads_locally = True
    search = WorkSearch(store, Random(7).random)
    search.met_lock(TEXTS[0])
    assert store.commit([Put(f"{LOCKS}{TEXTS[0]}", b"")])
    for _ in range(5):
        store.calls.clear()
        assert not search.glance(0)
        assert [page_key(0), f"{LOCKS}{TEXTS[0]}"] == store.calls
    assert store.commit([Delete(f"{LOCKS}{TEXTS[0]}")])

    assert search.glance(0)


def test_a_glance_finds_a_new_window() -> None:
    """
    Also one that is published before the worker would look for it.
    """
    store = Counted()
    store.publish([], 0, 1)
    search = WorkSearch(store, Random(11).random)
    assert not taken(search, 0, bool)
    assert not search.glance(1)
    store.publish(TEXTS[:1], 1, 2)

    assert search.glance(2)
    assert TEXTS[0] == taken(search, 3, bool)


def test_a_segment_that_rested_is_found_by_a_glance_without_a_request() -> None:
    """
    When its time is over, and not before; few are remembered.
    """
    store = Counted()
    search = WorkSearch(store, Random(13).random)
    for at, text in enumerate(TEXTS[:40]):
        search.met_rest(text, 1000 + at)
    assert not search.glance(999)
    store.calls.clear()
    assert search.glance(1005)
    assert set(TEXTS[:6]) == {text for text, _ in search.look(1005)}
    assert search.glance(9000)
    assert [] == store.calls[1:]
    assert set(TEXTS[6:16]) == {text for text, _ in search.look(9000)}


def test_a_glance_finds_what_others_than_the_auditor_mark() -> None:
    """
    However many published segments are repaired by now; the first few of all.
    """
    store = MemoryStore()
    queue = UnderReplicationQueue(store, lambda: 1)
    slot = queue.slot("w/0", Random(14).random)
    queue.mark_many(new_marks(50), by="auditor")
    queue.publish_window()
    while (claim := queue.take(slot)) is not None:
        assert queue.done(claim)
    while queue.glance(slot):
        assert queue.take(slot) is None
    marks = new_marks(300, first=100)
    keys = [one.key for one in marks]
    queue.mark_many(marks, by="verification")
    queue.tell_marked([])
    assert not queue.glance(slot)
    queue.tell_marked(keys)

    assert queue.glance(slot)
    claims = [queue.take(slot) for _ in range(8)]
    assert {one.key for one in claims if one is not None} == set(keys[:8])


def test_few_locks_are_remembered() -> None:
    """
    However many were met; a set that is paused now yields none of them.
    """
    store = Counted()
    search = WorkSearch(store, Random(12).random)
    for text in TEXTS[:100]:
        search.met_lock(text)
    seen = set()
    for _ in range(400):
        if search.glance(0):
            seen |= {text for text, _ in search.look(0, frozenset())}
    assert set(TEXTS[:16]) == seen

    search.met_lock(TEXTS[0])
    assert search.glance(0)
    paused = frozenset({TEXTS[0].rpartition("/")[0]})
    assert [] == list(search.look(0, paused))


def test_a_damaged_page_is_no_page() -> None:
    """
    The Auditor writes it again.
    """
    store = Counted()
    store.publish(TEXTS, len(TEXTS), 1)
    assert store.commit([Put(page_key(0), b"?"), Delete(page_key(1))])
    store.mark(range(3))

    found = taken(WorkSearch(store, Random(9).random), 0, bool)
    assert found in {segment(n).text for n in range(3)}
