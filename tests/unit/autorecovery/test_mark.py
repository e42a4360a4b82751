"""
Marks: evidence, merging, order, and their record.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from lib.autorecovery.marks import ABSENT_COPY, LOST_COPY, a_mark, corrupt

from pystore.autorecovery.mark import (
    Missing,
    Priority,
    Reason,
    SegmentMark,
    decode_mark,
    encode_mark,
)
from pystore.autorecovery.record_form import decode_form, encode_form
from pystore.errors import FormatError, InvalidError


@pytest.mark.parametrize(
    ("reason", "since_ms", "blocks"),
    [
        (Reason.LOST, 0, ()),
        (Reason.CORRUPT, 0, ()),
        (Reason.ABSENT, 0, (1,)),
        (Reason.CORRUPT, 0, (2, 1)),
        (Reason.CORRUPT, 0, (1, 1)),
        (Reason.CORRUPT, 0, (-1,)),
    ],
)
def test_a_missing_copy_needs_its_evidence(
    reason: Reason, since_ms: int, blocks: tuple[int, ...]
) -> None:
    """
    Lost since when, corrupt in which blocks.
    """
    with pytest.raises(InvalidError):
        Missing(reason, "", since_ms, blocks)


def test_there_is_no_reason_for_a_time_out() -> None:
    """
    What is unknown marks nothing (AR-R6).
    """
    assert {
        *("LOST", "ABSENT", "CORRUPT", "DIVERGENT", "MISPLACED", "DRAIN", "FILL")
    } == {one.value for one in Reason}


def test_missing_copies_add_up_and_the_more_urgent_priority_stays() -> None:
    """
    BK-A44; the first time stays, the last one is the later.
    """
    old = a_mark({2: LOST_COPY}, Priority.FEWER_THAN_WANTED, 1000)
    new = replace(a_mark({3: ABSENT_COPY}, Priority.LAST_COPY, 5000), by="verify")
    both = old.with_facts(new)

    assert both is not None
    assert {2: LOST_COPY, 3: ABSENT_COPY} == both.missing
    assert (Priority.LAST_COPY, 1000, 5000, "verify") == (
        both.priority,
        both.first_ms,
        both.last_ms,
        both.by,
    )
    less = both.with_facts(a_mark({4: LOST_COPY}, Priority.MISPLACED, 6000))
    assert less is not None
    assert Priority.LAST_COPY is less.priority


@pytest.mark.parametrize(
    ("known", "fact"),
    [
        (LOST_COPY, Missing(Reason.LOST, "dead, says controller 2", 2000)),
        (ABSENT_COPY, Missing(Reason.ABSENT, "other words")),
        (corrupt(1, 2), corrupt(2)),
    ],
)
def test_the_same_fact_again_changes_nothing(known: Missing, fact: Missing) -> None:
    """
    BK-A45; other words and times do not make another fact.
    """
    assert a_mark({2: known}).with_facts(a_mark({2: fact}, first_ms=9000)) is None


@pytest.mark.parametrize(
    ("known", "fact", "after"),
    [
        (LOST_COPY, ABSENT_COPY, ABSENT_COPY),
        (corrupt(1, 3), corrupt(2, 3), corrupt(1, 2, 3)),
        (corrupt(1), LOST_COPY, LOST_COPY),
        (LOST_COPY, corrupt(1), corrupt(1)),
    ],
)
def test_a_later_fact_about_a_copy_counts(
    known: Missing, fact: Missing, after: Missing
) -> None:
    """
    Bad blocks add up.
    """
    merged = a_mark({2: known, 3: LOST_COPY}).with_facts(a_mark({2: fact}))

    assert merged is not None
    assert {2: after, 3: LOST_COPY} == merged.missing


def test_look_alike_ids_are_kept_apart() -> None:
    """
    BK-A46.
    """
    merged = a_mark({318: LOST_COPY}).with_facts(a_mark({3181: LOST_COPY}))

    assert merged is not None
    assert {318, 3181} == set(merged.missing)


def test_back_off_survives_new_facts() -> None:
    """
    A failed repair does not succeed by another missing copy.
    """
    rested = replace(a_mark(), tries=3, not_before_ms=77)
    merged = rested.with_facts(a_mark({5: LOST_COPY}))

    assert merged is not None
    assert (3, 77) == (merged.tries, merged.not_before_ms)


def test_the_most_urgent_and_the_oldest_come_first() -> None:
    """
    AR-R5; what an operator put in front comes before all others.
    """
    last = a_mark(priority=Priority.LAST_COPY, first_ms=500)
    old, young = a_mark(first_ms=100), a_mark(first_ms=200)
    moved = a_mark(priority=Priority.MISPLACED, first_ms=1)
    front = replace(moved, front_ms=900)
    later = replace(moved, front_ms=950)

    marks = [young, later, moved, old, front, last]
    assert [front, later, last, old, young, moved] == sorted(
        marks, key=lambda one: one.urgency
    )
    assert old.rank == young.rank != last.rank
    assert front.rank < last.rank


def test_a_mark_comes_back_from_its_record() -> None:
    """
    All its fields.
    """
    facts = {2: LOST_COPY, 3: corrupt(0, 255), 4: ABSENT_COPY}
    mark = SegmentMark(facts, Priority.LAST_COPY, 1, 2, 3, 4, 5, "ä", 6)

    assert mark == decode_mark(encode_mark(mark), "key")


def test_fields_of_a_later_program_are_kept() -> None:
    """
    Of the mark and of its facts, through a change by this program.
    """
    values = dict(decode_form(encode_mark(a_mark()), "key").values)
    values["later"] = {"a": 1}
    values["missing"] = {"2": {"reason": "ABSENT", "detail": "", "disk": "sda"}}
    merged = decode_mark(encode_form(values), "key").with_facts(a_mark({3: LOST_COPY}))
    assert merged is not None
    after = decode_form(encode_mark(merged), "key").values

    assert {"a": 1} == after["later"]
    missing = after["missing"]
    assert isinstance(missing, dict)
    assert {"reason": "ABSENT", "detail": "", "disk": "sda"} == missing["2"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("missing", {"2": {"reason": "TIMEOUT", "detail": ""}}),
        ("missing", {"2": {"reason": "LOST", "detail": ""}}),
        ("missing", {"x": {"reason": "ABSENT", "detail": ""}}),
        ("missing", []),
        ("priority", 9),
        ("tries", "1"),
        ("first", None),
    ],
)
def test_a_record_with_an_invalid_field_is_refused(field: str, value: object) -> None:
    """
    With the key, in one line.
    """
    values = {**decode_form(encode_mark(a_mark()), "key").values, field: value}

    with pytest.raises(FormatError, match=r"^record key"):
        decode_mark(encode_form(values), "key")
