"""
The pages of the window.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from lib.autorecovery.marks import a_mark, segment

from pystore.autorecovery.mark import Missing, Priority, Reason
from pystore.autorecovery.segment_key import page_key
from pystore.autorecovery.window import (
    PAGE_KEYS,
    WindowPage,
    decode_page,
    encode_page,
    in_order,
    next_issue,
    pages_of,
    put_in_front,
    window_commits,
)
from pystore.errors import FormatError
from pystore.records.memory import MemoryStore
from pystore.records.ops import (
    COMMIT_BYTES_MAX,
    CheckVersion,
    Delete,
    Put,
    commit_bytes,
)
from pystore.records.record_store import StoredRecord


def test_the_order_is_by_urgency_and_tells_how_many_are_equal() -> None:
    """
    AR-R5: priority, then age.
    """
    marks = {
        segment(1): a_mark(first_ms=10),
        segment(2): a_mark(priority=Priority.LAST_COPY, first_ms=30),
        segment(3): a_mark(priority=Priority.LAST_COPY, first_ms=20),
        segment(4): replace(a_mark(priority=Priority.MISPLACED), front_ms=1),
    }

    texts = [segment(n).text for n in (4, 3, 2, 1)]
    assert (texts, 1) == in_order(marks)
    del marks[segment(4)]
    assert (texts[1:], 2) == in_order(marks)
    assert ([], 0) == in_order({})


def test_a_replica_is_filled_from_the_top() -> None:
    """
    D1: workers begin with the highest segment of each set, whatever else is as urgent.
    """
    filling = Missing(Reason.FILL, "it is filled")
    marks = {
        segment(number, name): a_mark({3: filling}, first_ms=number)
        for name in ("one", "two")
        for number in (1, 2, 3)
    }
    marks[segment(9, "three")] = a_mark(first_ms=50)

    tops = [segment(3, "one"), segment(3, "two"), segment(9, "three")]
    rest = [segment(n, name) for n in (2, 1) for name in ("one", "two")]
    assert ([one.text for one in (*tops, *rest)], 3) == in_order(marks)


@pytest.mark.parametrize(
    ("count", "equal", "claims", "pages", "spread"),
    [
        (0, 0, 0, 1, 1),
        (1, 1, 0, 1, 1),
        (PAGE_KEYS, 3, 9, 1, 3),
        (PAGE_KEYS + 1, PAGE_KEYS + 1, 0, 2, PAGE_KEYS + 1),
        (50 * PAGE_KEYS, 50 * PAGE_KEYS, 0, 50, 4 * PAGE_KEYS),
        (50 * PAGE_KEYS, 50 * PAGE_KEYS, 16, 50, 20 * PAGE_KEYS),
    ],
)
def test_workers_begin_among_the_equally_urgent_ones(
    count: int, equal: int, claims: int, pages: int, spread: int
) -> None:
    """
    The further apart the more of them work.
    """
    keys = [segment(n).text for n in range(count)]
    made = pages_of(keys, equal, 7, claims)

    assert keys == [key for page in made for key in page.keys]
    assert {(pages, spread, 7)} == {(p.pages, p.spread, p.issue) for p in made}
    assert len(made) == pages


def test_a_page_comes_back_from_its_record() -> None:
    """
    And what is none is refused.
    """
    page = WindowPage(("a", "b"), 3, 2, 9)

    assert page == decode_page(encode_page(page), "key")
    with pytest.raises(FormatError, match=r"^record key"):
        decode_page(b'{"form":1,"keys":[1]}', "key")


def test_the_first_page_is_written_last_and_no_commit_is_too_large() -> None:
    """
    A worker that sees the new issue finds the new pages, and none of the old.
    """
    keys = ["k" * 240] * (50 * PAGE_KEYS)
    pages = pages_of(keys, 1, 1, 0)
    term = CheckVersion("recovery/auditor", 5)
    commits = list(window_commits([page_key(n) for n in (3, 60)], pages, term))

    written = [op.key for ops in commits for op in ops if isinstance(op, Put)]
    assert [page_key(n) for n in reversed(range(50))] == written
    assert [page_key(60)] == [
        op.key for ops in commits for op in ops if isinstance(op, Delete)
    ]
    assert len(commits) > 1
    for ops in commits:
        assert term in ops
        assert commit_bytes(ops) < COMMIT_BYTES_MAX


def test_an_issue_is_above_all_that_there_are() -> None:
    """
    A page that cannot be read does not count.
    """
    old = [
        StoredRecord("a", encode_page(WindowPage((), 1, 1, 4)), 1),
        StoredRecord("b", b"?", 1),
    ]

    assert 5 == next_issue(old)
    assert 1 == next_issue([])


def test_a_segment_in_front_is_where_all_workers_begin() -> None:
    """
    Once, with or without a window.
    """
    store = MemoryStore()
    for number in (1, 2, 1):
        assert put_in_front(store, segment(number))
    found = store.get(page_key(0))
    assert found is not None

    page = decode_page(found.value, found.key)
    assert (segment(1).text, segment(2).text) == page.keys
    assert (1, 3) == (page.spread, page.issue)


def test_workers_begin_among_all_segments_in_front() -> None:
    """
    Several at once, of which one was published before.
    """
    store = MemoryStore()
    assert put_in_front(store, segment(1), segment(2))
    assert put_in_front(store, segment(3), segment(2))
    found = store.get(page_key(0))
    assert found is not None

    page = decode_page(found.value, found.key)
    assert tuple(segment(number).text for number in (3, 2, 1)) == page.keys
    assert (2, 2) == (page.spread, page.issue)


def test_a_segment_gets_in_front_of_a_page_that_cannot_be_read() -> None:
    """
    A hint less.
    """
    store = MemoryStore()
    assert store.commit([Put(page_key(0), b"?")])
    assert put_in_front(store, segment(1))
    found = store.get(page_key(0))

    assert found is not None
    assert (segment(1).text,) == decode_page(found.value, found.key).keys
