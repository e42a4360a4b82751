"""
Marks in batches, on each backend.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from lib.autorecovery.marks import (
    ABSENT_COPY,
    LOST_COPY,
    a_mark,
    corrupt,
    new_marks,
    segment,
)
from lib.remoting.record_stores import Space, put

from pystore.autorecovery.dead_segment import DeadSegment, encode_dead
from pystore.autorecovery.mark import Missing, Priority, decode_mark, encode_mark
from pystore.autorecovery.marking import MarkOutcome, NewMark, mark_all
from pystore.autorecovery.segment_key import MARKS
from pystore.errors import FencedError, InvalidError
from pystore.records.memory import Fault, MemorySpace, MemoryStore
from pystore.records.ops import CheckVersion, Delete, Op, Put
from pystore.records.record_store import RecordStore

NEW, MERGED, SAME = MarkOutcome.NEW, MarkOutcome.MERGED, MarkOutcome.SAME


def marked(
    store: RecordStore, marks: Sequence[NewMark], term: CheckVersion | None = None
) -> dict[MarkOutcome, int]:
    """
    The outcomes of marks at one time.
    """
    return dict(mark_all(store, marks, "auditor", 7000, term))


def one(number: int, **missing: Missing) -> NewMark:
    """
    A mark with facts, by ``b2=...``.
    """
    facts = {int(name[1:]): fact for name, fact in missing.items()}
    return NewMark(segment(number), facts, Priority.FEWER_THAN_WANTED)


def test_many_marks_are_made_merged_and_left_as_they_are(store: RecordStore) -> None:
    """
    More than a commit holds; the same again writes nothing, no version either (BK-A45).
    """
    assert {NEW: 600} == marked(store, new_marks(600))
    before = store.scan(MARKS)
    token = store.wait(0, 0, "recovery")
    assert {SAME: 600} == marked(store, new_marks(600))
    assert before == store.scan(MARKS)
    assert token == store.wait(token, 0, "recovery")

    more = [NewMark(m.key, {3: ABSENT_COPY}, m.priority) for m in new_marks(20)]
    assert {MERGED: 20, NEW: 5, SAME: 30} == marked(
        store, [*more, *new_marks(5, first=600), *new_marks(30, first=100)]
    )
    found = store.get(more[0].key.mark)
    assert found is not None
    assert {2: LOST_COPY, 3: ABSENT_COPY} == decode_mark(found.value, "").missing


def test_facts_about_one_segment_are_merged_before_they_are_written(
    store: RecordStore,
) -> None:
    """
    In any order, one outcome.
    """
    marks = [one(1, b2=corrupt(5)), one(1, b2=corrupt(1)), one(1, b3=LOST_COPY)]

    assert {NEW: 1} == marked(store, [*marks, marks[0]])
    found = store.get(segment(1).mark)
    assert found is not None
    assert {2: corrupt(1, 5), 3: LOST_COPY} == decode_mark(found.value, "").missing
    assert {} == marked(store, [])


def test_a_mark_names_a_missing_copy() -> None:
    """
    Otherwise a worker would have nothing to do.
    """
    with pytest.raises(InvalidError, match="names a missing copy"):
        one(1)


class Watched(MemoryStore):
    """
    A store that notes the sizes of its commits, and has one in between another's read
    and commit.
    """

    def __init__(self, space: MemorySpace | None = None) -> None:
        super().__init__(space)
        self.sizes: list[int] = []
        self.between: list[Op] = []

    def commit(self, ops: Sequence[Op]) -> int | None:
        """
        Noted.
        """
        if self.between:
            between, self.between = self.between, []
            assert super().commit(between)
        self.sizes.append(len(ops))
        return super().commit(ops)


def test_no_commit_has_more_than_five_hundred_operations() -> None:
    """
    Nor more bytes than the record store takes.
    """
    store = Watched()
    assert {NEW: 1000} == marked(store, new_marks(1000))
    assert max(store.sizes) <= 500
    assert len(store.sizes) == 5
    huge = [
        NewMark(segment(n, "s" * 100), {2: corrupt(*range(2000))}, Priority.LAST_COPY)
        for n in range(100)
    ]
    assert {NEW: 100} == marked(store, huge)


@pytest.mark.parametrize("count", [1, 20])
def test_a_mark_that_came_in_between_is_merged(count: int) -> None:
    """
    BK-A44; by an operator or another Auditor.
    """
    store = Watched()
    other = a_mark({3: ABSENT_COPY})
    store.between = [Put(segment(1).mark, encode_mark(other))]
    marks = [one(n, b2=LOST_COPY) for n in range(1, count + 1)]

    outcomes = marked(store, marks)
    assert {MERGED: 1} | ({NEW: count - 1} if count > 1 else {}) == outcomes
    found = store.get(segment(1).mark)
    assert found is not None
    assert {2: LOST_COPY, 3: ABSENT_COPY} == decode_mark(found.value, "").missing
    # And one that vanished in between is made again.
    store.between = [Delete(segment(1).mark)]
    assert {NEW: 1} == marked(store, [one(1, b4=LOST_COPY)])


@pytest.mark.parametrize("fault", [Fault.LOST_REQUEST, Fault.LOST_ANSWER])
def test_a_lost_answer_is_settled(fault: Fault) -> None:
    """
    The outcome is the same, made or not.
    """
    faults = [fault]
    store = MemoryStore(
        faults=lambda verb: faults.pop() if verb == "commit" and faults else Fault.NONE
    )

    assert {NEW: 2} == marked(store, [one(1, b2=LOST_COPY), one(2, b2=LOST_COPY)])


def test_after_its_term_an_auditor_marks_nothing(
    space: Space, store: RecordStore
) -> None:
    """
    Also where all its facts are new.
    """
    term = space.open().campaign("recovery/auditor", "1")
    assert {NEW: 1} == marked(store, [one(1, b2=LOST_COPY)], term.check)
    put(store, "recovery/auditor", b"2")
    before = store.scan()

    with pytest.raises(FencedError, match="recovery/auditor has ended"):
        marked(store, [one(2, b2=LOST_COPY)], term.check)
    assert before == store.scan()


@pytest.mark.parametrize("count", [1, 20])
def test_what_cannot_be_read_is_not_overwritten(store: RecordStore, count: int) -> None:
    """
    BK-A47; nor does it keep others from being marked.
    """
    put(store, segment(1).mark, b"?")
    others = {NEW: count - 1} if count > 1 else {}
    marks = [one(n, b2=LOST_COPY) for n in range(1, count + 1)]

    assert {MarkOutcome.DAMAGED: 1} | others == marked(store, marks)
    found = store.get(segment(1).mark)
    assert found is not None
    assert b"?" == found.value


@pytest.mark.parametrize("count", [1, 20])
def test_a_dead_segment_is_not_marked(store: RecordStore, count: int) -> None:
    """
    AR-R9: each audit would bring it back, and no copy is there to repair it.
    """
    dead = DeadSegment(a_mark(), "no copy", 1, "w")
    put(store, segment(1).dead, encode_dead(dead))
    others = {NEW: count - 1} if count > 1 else {}
    marks = [one(n, b2=LOST_COPY) for n in range(1, count + 1)]

    assert {MarkOutcome.DEAD: 1} | others == marked(store, marks)
    assert store.get(segment(1).mark) is None


def test_marks_behind_many_others_are_found(store: RecordStore) -> None:
    """
    A scan that meets too many others ends, and the rest is read one by one.
    """
    assert {NEW: 100} == marked(store, new_marks(100))
    ends = [*new_marks(10), *new_marks(10, first=90)]

    assert {SAME: 20} == marked(store, ends)
