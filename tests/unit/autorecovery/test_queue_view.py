"""
Lists and the summary, on each backend.
"""

from __future__ import annotations

from lib.autorecovery.marks import ABSENT_COPY, GIB, LOST_COPY, a_mark, segment
from lib.remoting.record_stores import put

from pystore.autorecovery.dead_segment import DeadSegment, encode_dead
from pystore.autorecovery.mark import Missing, Priority, encode_mark
from pystore.autorecovery.queue_view import (
    RecoverySummary,
    list_dead,
    list_marks,
    summarize,
)
from pystore.autorecovery.segment_key import DISABLED, MARKS, SegmentKey
from pystore.records.record_store import RecordStore


def mark(
    store: RecordStore,
    key: SegmentKey,
    missing: dict[int, Missing] | None = None,
    priority: Priority = Priority.FEWER_THAN_WANTED,
    first_ms: int = 1000,
) -> None:
    """
    Puts a mark.
    """
    put(store, key.mark, encode_mark(a_mark(missing, priority, first_ms)))


def test_marks_are_listed_by_their_missing_copies(store: RecordStore) -> None:
    """
    BK-A51: with one, without another one, both; and those of one set.
    """
    mark(store, segment(1), {2: LOST_COPY})
    mark(store, segment(2), {2: LOST_COPY, 3: ABSENT_COPY})
    mark(store, segment(3, "other"), {3: LOST_COPY})
    put(store, segment(4).mark, b"?")
    put(store, MARKS + "x", encode_mark(a_mark()))

    def found(
        include: int | None = None, exclude: int | None = None, within: str = ""
    ) -> list[int]:
        listed = list_marks(store, include, exclude, within)
        return [key.start // GIB for key in listed]

    assert [3, 1, 2] == found()
    assert [1, 2] == found(include=2)
    assert [3] == found(exclude=2)
    assert [1] == found(2, 3)
    assert [] == found(include=31)
    assert [1, 2] == found(within="cluster/set/")


def test_the_summary_is_the_present_state(store: RecordStore) -> None:
    """
    AR-R15, with one line for each record that cannot be read.
    """
    empty = RecoverySummary(
        dict.fromkeys(Priority, 0), 0, None, 0, 0, is_enabled=True, damaged=()
    )
    assert empty == summarize(store)
    mark(store, segment(1), priority=Priority.LAST_COPY, first_ms=500)
    mark(store, segment(2))
    mark(store, segment(3))
    put(store, segment(4).mark, b"?")
    put(store, segment(5).dead, encode_dead(DeadSegment(a_mark(), "gone", 1, "w")))
    put(store, segment(6).dead, b"?")
    put(store, segment(2).lock, b"")
    put(store, DISABLED)

    summary = summarize(store)
    assert {0: 1, 1: 0, 2: 2, 3: 0, 4: 0} == summary.marks
    assert (3 * GIB, 500, 1, 1, False) == (
        summary.size,
        summary.oldest_first_ms,
        summary.claims,
        summary.dead,
        summary.is_enabled,
    )
    assert [segment(4).mark, segment(6).dead] == [
        line.split()[1].rstrip(":") for line in summary.damaged
    ]
    assert {segment(5): "gone"} == {
        key: dead.evidence for key, dead in list_dead(store).items()
    }
