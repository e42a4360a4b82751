"""
An epoch table of any length comes over whole, or not at all.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystore.epochs.table import EpochTable
from pystore.errors import InvalidError, RemoteViolation
from pystore.ha.wire.codes import FRAME_BYTES_UNSETTLED, EpochsFlag
from pystore.ha.wire.epoch_pages import EPOCHS_MAX, EpochPages, EpochSnapshot, page_of
from pystore.ha.wire.frames import Frame, QueryEpoch, ReturnEpoch
from pystore.ha.wire.v3 import encode

SESSION = 77
HEAD = 24 + 40
ENTRY = 24
MORE, LAST = EpochsFlag.MORE, EpochsFlag(0)
THREE = EpochSnapshot(EpochTable.of([(1, 0), (2, 1580), (4, 2370)]), 0, 2844)


@st.composite
def snapshots(draw: st.DrawFn) -> EpochSnapshot:
    """
    Any table; the last entry may be empty, and some may stand above the end.
    """
    starts = sorted(draw(st.sets(st.integers(0, 2**62), max_size=20)))
    epochs = sorted(draw(st.sets(st.integers(0, 2**62), min_size=20, max_size=20)))
    low = draw(st.integers(0, 2**62))
    end = draw(st.one_of(st.sampled_from([*starts, 2**62]), st.integers(0, 2**62)))
    table = EpochTable.of(zip(epochs, starts, strict=False))
    return EpochSnapshot(table, min(low, end), end)


def transfer(snapshot: EpochSnapshot, frame_max: int) -> tuple[EpochSnapshot, int]:
    """
    Returns what a slave puts together, and from how many pages.
    """
    pages = EpochPages(SESSION)
    for count in range(1, 10_000):
        page = page_of(snapshot, pages.query(), SESSION, frame_max)
        assert len(encode(Frame(1, 2, page))) <= frame_max
        whole = pages.take(page)
        if whole is not None:
            return whole, count
    raise AssertionError("no end of pages")


@given(snapshots(), st.integers(1, 25))
def test_a_table_comes_over_whole(snapshot: EpochSnapshot, room: int) -> None:
    """
    But for entries above the end of the log, whose bytes are not there (R144).
    """
    there = snapshot.epochs.drop_above(snapshot.end_offset)
    whole, count = transfer(snapshot, HEAD + room * ENTRY)

    assert dataclasses.replace(snapshot, epochs=there) == whole
    assert max(1, -(-len(there) // room)) == count


def test_five_thousand_epochs_come_over_in_pages() -> None:
    """
    R198: where a Java master stops at 1,000; here in one frame or in many.
    """
    table = EpochTable.of((2 * n, 1000 * n) for n in range(5000))
    snapshot = EpochSnapshot(table, 500, 5_000_000)

    assert (snapshot, 1) == transfer(snapshot, FRAME_BYTES_UNSETTLED)
    assert (snapshot, 50) == transfer(snapshot, HEAD + 100 * ENTRY)
    assert (snapshot, 5000) == transfer(snapshot, HEAD + ENTRY)


def test_a_page_says_where_each_epoch_ends() -> None:
    """
    The last one at the end of the log; a page in the middle at the next start.
    """
    entries = ((1, 0, 1580), (2, 1580, 2370), (4, 2370, 2844))

    assert ReturnEpoch(SESSION, 0, 2844, 3, LAST, entries) == ask(0, 0)
    assert ReturnEpoch(SESSION, 0, 2844, 3, MORE, entries[:2]) == ask(0, 2)
    assert ReturnEpoch(SESSION, 0, 2844, 3, MORE, entries[1:2]) == ask(2, 1)
    assert ReturnEpoch(SESSION, 0, 2844, 3, LAST, entries[2:]) == ask(3, 9)
    assert ReturnEpoch(SESSION, 0, 2844, 3, LAST, ()) == ask(5, 0)
    assert ReturnEpoch(SESSION, 0, 2844, 3, LAST, entries) == ask(-1, 0)


def ask(first: int, count: int) -> ReturnEpoch:
    """
    Returns the answer to a query for three epochs.
    """
    query = QueryEpoch(SESSION, first, count)
    return page_of(THREE, query, SESSION, FRAME_BYTES_UNSETTLED)


def test_an_empty_table_is_a_table() -> None:
    """
    One page without entries, of a master without a byte.
    """
    empty = EpochSnapshot(EpochTable(), 0, 0)

    assert (empty, 1) == transfer(empty, FRAME_BYTES_UNSETTLED)


def test_an_epoch_without_bytes_is_the_last_one() -> None:
    """
    A new master's own, before its first record.
    """
    snapshot = EpochSnapshot(EpochTable.of([(1, 0), (2, 100)]), 0, 100)

    assert (snapshot, 2) == transfer(snapshot, HEAD + ENTRY)


def test_a_query_for_less_than_nothing_is_refused() -> None:
    """
    It is the peer's mistake; a frame without room for an entry is ours.
    """
    with pytest.raises(RemoteViolation, match="a query for -1 epochs"):
        page_of(THREE, QueryEpoch(SESSION, 0, -1), SESSION, 1000)
    with pytest.raises(InvalidError, match="no epoch fits into a frame of 87 bytes"):
        page_of(THREE, QueryEpoch(SESSION), SESSION, HEAD + ENTRY - 1)


def page(**changes: Any) -> ReturnEpoch:
    """
    Returns the one page of three epochs, with changes.
    """
    return dataclasses.replace(ask(0, 0), **changes)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"session_id": 78}, "another session, 78"),
        ({"entries_total": -1}, "a table of -1 epochs"),
        ({"entries_total": EPOCHS_MAX + 1}, "a table of 1048577 epochs"),
        ({"entries_total": 2}, "more epochs came than 2"),
        ({"entries_total": 4}, "3 epochs of 4 came"),
        ({"flags": MORE}, "more epochs came than 3"),
        ({"flags": MORE, "entries": ()}, "a page without epochs"),
        ({"entries": ()}, "0 epochs of 3 came"),
        ({"min_offset": -1}, "a log from -1"),
        ({"min_offset": 2845}, "a log from 2845 to 2844"),
        ({"end_offset": 2845}, "the last epoch ends at 2844, the log at 2845"),
    ],
)
def test_a_page_that_contradicts_itself_is_refused(
    changes: dict[str, Any], match: str
) -> None:
    """
    Nothing of it is believed.
    """
    with pytest.raises(RemoteViolation, match=match):
        EpochPages(SESSION).take(page(**changes))


@pytest.mark.parametrize(
    "entries",
    [
        ((1, 0, 1580), (1, 1580, 2370), (4, 2370, 2844)),
        ((2, 0, 1580), (1, 1580, 2370), (4, 2370, 2844)),
        ((1, 0, 1580), (2, 1581, 2370), (4, 2370, 2844)),
        ((1, 0, 1580), (2, 1579, 2370), (4, 2370, 2844)),
        ((1, 0, 1580), (2, 1580, 1580), (4, 1580, 2844)),
        ((1, 0, 1580), (2, 1580, 900), (4, 900, 2844)),
        ((-1, 0, 1580), (2, 1580, 2370), (4, 2370, 2844)),
        ((1, -5, 1580), (2, 1580, 2370), (4, 2370, 2844)),
        ((1, 0, 1580), (2, 1580, 2370), (2**63 - 1, 2370, 2844)),
    ],
    ids=[
        "an epoch twice",
        "a falling epoch",
        "a gap",
        "an overlap",
        "an empty epoch in the middle",
        "an epoch that ends before it starts",
        "a negative epoch",
        "a negative start",
        "the number that means no end",
    ],
)
def test_entries_that_are_no_history_are_refused(
    entries: tuple[tuple[int, int, int], ...],
) -> None:
    """
    Starts are the ends before them, epochs rise, and none but the last is empty.
    """
    with pytest.raises(RemoteViolation):
        EpochPages(SESSION).take(page(entries=entries))


def test_pages_have_to_meet() -> None:
    """
    Between two pages the same rules hold as within one.
    """
    pages = EpochPages(SESSION)
    assert pages.take(ask(0, 1)) is None
    assert QueryEpoch(SESSION, 2) == pages.query()

    with pytest.raises(RemoteViolation, match="does not follow epoch 1"):
        pages.take(page(flags=MORE, entries=((3, 1600, 2370),)))


def test_an_epoch_without_bytes_is_not_followed_by_a_page() -> None:
    """
    Only the table's last entry may be empty, not the last one of a page.
    """
    with pytest.raises(RemoteViolation, match="epoch 1 from 5 to 5"):
        EpochPages(SESSION).take(page(flags=MORE, entries=((1, 5, 5),)))


@pytest.mark.parametrize(
    "later",
    [
        EpochSnapshot(EpochTable.of([(2, 1580), (4, 2370)]), 0, 2844),
        EpochSnapshot(THREE.epochs, 10, 2844),
        EpochSnapshot(THREE.epochs, 0, 2843),
    ],
    ids=["a shorter table", "a higher minimum", "a lower end"],
)
def test_a_table_that_changed_between_pages_is_asked_for_again(
    later: EpochSnapshot,
) -> None:
    """
    The slave starts from epoch 0, and gets what is there now.
    """
    pages = EpochPages(SESSION)
    assert pages.take(ask(0, 1)) is None
    assert pages.take(page_of(later, pages.query(), SESSION, 1000)) is None
    assert QueryEpoch(SESSION, 0) == pages.query()

    assert later == pages.take(page_of(later, pages.query(), SESSION, 1000))


def test_a_log_that_grows_from_page_to_page_is_not_another_table() -> None:
    """
    Or a master that is written to would be asked for ever.
    """
    pages = EpochPages(SESSION)
    grown = [dataclasses.replace(THREE, end_offset=2844 + n) for n in range(3)]
    answers = [
        pages.take(page_of(one, pages.query(), SESSION, HEAD + ENTRY)) for one in grown
    ]

    assert [None, None, grown[2]] == answers


def test_a_table_that_never_stands_still_ends_the_session() -> None:
    """
    After a few attempts; waiting for it has an end.
    """
    pages = EpochPages(SESSION)

    def go_on(attempts: int) -> None:
        for number in range(attempts):
            shaky = dataclasses.replace(THREE, min_offset=number)
            for _ in range(2):  # the page that differs, and the first one again
                answer = page_of(shaky, pages.query(), SESSION, HEAD + ENTRY)
                assert pages.take(answer) is None

    go_on(8)
    with pytest.raises(RemoteViolation, match="changed in each of 8 attempts"):
        go_on(1)


def test_a_peer_cannot_make_a_slave_keep_more_than_it_named() -> None:
    """
    R272: a page that goes on for ever is refused when its number is used up.
    """
    pages = EpochPages(SESSION)
    for n in range(2):
        assert pages.take(page(flags=MORE, entries=((n, n, n + 1),))) is None
    with pytest.raises(RemoteViolation, match="more epochs came than 3"):
        pages.take(page(flags=MORE, entries=((2, 2, 3),)))
