"""
A slave receives a table of next queue offsets of any length as a whole (A20).
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lib.values import replace

from pystore.errors import InvalidError, RemoteViolation
from pystore.ha.slave.effects import Begin
from pystore.ha.slave.queue_query import QueuePages
from pystore.ha.wire.codes import QueuesFlag
from pystore.ha.wire.decoder import take_frame
from pystore.ha.wire.frames import Frame, ReturnQueues
from pystore.ha.wire.frames import NextQueueOffset as Next
from pystore.ha.wire.queue_frames import QueueSnapshot, queue_page
from pystore.ha.wire.v3 import encode

SESSION = 77
SEGMENT = 1 << 10
HEAD = 24 + 52
TOPICS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
    st.binary(max_size=60).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
)
ENTRIES = st.lists(
    st.builds(Next, TOPICS, st.integers(-(2**31), 2**31 - 1), st.integers(0, 9)),
    max_size=20,
).map(tuple)


def transfer(snapshot: QueueSnapshot, frame_max: int) -> Begin:
    """
    Returns what a slave puts together from the bytes of all pages.
    """
    pages = QueuePages()
    while not pages.is_whole:
        page = queue_page(snapshot, pages.first, SESSION, frame_max)
        raw = encode(Frame(1, 2, page))
        assert len(raw) <= frame_max
        frame, _ = take_frame(memoryview(raw), frame_max)
        assert frame is not None
        assert page == frame.body
        pages.add(frame.body, SEGMENT)
    return pages.begin()


@given(ENTRIES, st.integers(0, 9), st.integers(0, 9), st.integers(200, 800))
def test_a_table_comes_over_whole(
    entries: tuple[Next, ...], floor: int, more: int, room: int
) -> None:
    """
    Whatever bytes its topics have, and however many frames it takes.
    """
    start = (floor + more) * SEGMENT
    snapshot = QueueSnapshot(floor * SEGMENT, start, entries)
    assert Begin(start, floor * SEGMENT, entries) == transfer(snapshot, HEAD + room)


def test_an_entry_that_fits_no_frame_is_named() -> None:
    """
    No table is handed over without it.
    """
    snapshot = QueueSnapshot(0, SEGMENT, (Next("t" * 200, 0, 1),))
    with pytest.raises(InvalidError, match="does not fit into a frame of 200 bytes"):
        queue_page(snapshot, 0, SESSION, 200)


PAGE = ReturnQueues(SESSION, 0, SEGMENT, 2, 0, QueuesFlag.MORE, (Next("t", 0, 1),))
LAST = replace(PAGE, first=1, flags=QueuesFlag(0), entries=(Next("t", 1, 1),))


@pytest.mark.parametrize(
    ("pages", "reason"),
    [
        ([replace(PAGE, first=1)], "queues from number 1 on, and 0 came"),
        ([PAGE, replace(LAST, first=0)], "queues from number 0 on, and 1 came"),
        ([PAGE, replace(LAST, start_offset=0)], "changed between pages"),
        ([PAGE, replace(LAST, entries_total=3)], "changed between pages"),
        ([replace(PAGE, entries=())], "an empty page of queues"),
        ([replace(PAGE, start_offset=SEGMENT + 1)], "begins at offset 1025"),
        ([replace(PAGE, min_offset=2 * SEGMENT)], "a log that begins at offset 1024"),
        ([replace(PAGE, min_offset=-1)], "whose log begins at offset -1"),
        (
            [replace(PAGE, entries=(Next("t", 0, -1),))],
            "next queue offset -1",
        ),
        (
            [replace(PAGE, entries=(Next("t", 0, 1 << 62),))],
            "next queue offset",
        ),
        ([replace(PAGE, entries_total=0)], "1 queues of a table of 0"),
        ([replace(PAGE, entries_total=1 << 40)], "at most 16777216 are taken"),
        ([replace(PAGE, flags=QueuesFlag(0))], "1 queues came of a table of 2"),
    ],
)
def test_pages_that_are_no_table_are_refused(
    pages: list[ReturnQueues], reason: str
) -> None:
    """
    The link ends, and the slave asks anew.
    """
    collected = QueuePages()
    *before, last = pages
    for page in before:
        collected.add(page, SEGMENT)
    with pytest.raises(RemoteViolation, match=reason):
        collected.add(last, SEGMENT)


def test_entries_with_another_checksum_are_refused() -> None:
    """
    A number that changed on the way would be given twice.
    """
    raw = bytearray(encode(Frame(1, 2, LAST)))
    raw[-1] ^= 1
    with pytest.raises(RemoteViolation, match="the checksum of its entries differs"):
        take_frame(memoryview(bytes(raw)))
