"""
A slave receives an epoch table of any length as a whole.
"""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystore.epochs.table import EpochTable
from pystore.errors import InvalidError, RemoteViolation
from pystore.ha.slave.epoch_query import EpochPages
from pystore.ha.wire.codes import FRAME_BYTES_UNSETTLED, EpochsFlag
from pystore.ha.wire.epoch_pages import EpochSnapshot, page_of
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
    pages = EpochPages()
    for count in range(1, 10_000):
        query = QueryEpoch(SESSION, pages.next_epoch)
        page = page_of(snapshot, query, SESSION, frame_max)
        assert len(encode(Frame(1, 2, page))) <= frame_max
        pages.add(page)
        if pages.is_whole:
            found = pages.history(2**62)
            return EpochSnapshot(found.epochs, page.min_offset, found.end_offset), count
    raise AssertionError("the pages have no end")


@given(snapshots(), st.integers(1, 25))
def test_a_table_comes_over_whole(snapshot: EpochSnapshot, room: int) -> None:
    """
    But for entries above the end of the log, whose bytes are not there (RMQ-R144).
    """
    there = snapshot.epochs.drop_above(snapshot.end_offset)
    whole, count = transfer(snapshot, HEAD + room * ENTRY)

    assert dataclasses.replace(snapshot, epochs=there) == whole
    assert max(1, -(-len(there) // room)) == count


def test_five_thousand_epochs_come_over_in_pages() -> None:
    """
    RMQ-R198: where a Java master stops at 1,000; here in one frame or in many.
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
