"""
The right bytes of a segment, by its copies. The rules with more replicas are tested by
test_check_replicas.
"""

from __future__ import annotations

from lib.spark.letter_replicas import SIZE, LetterReplica

from pystore.seals import BLOCK_BYTES
from pystore.spark.verify.forks import Fork
from pystore.spark.verify.verdicts import Finding
from pystore.spark.verify.votes import block_of, make_copy, marks_of, right_marks


def test_bytes_above_a_fork_have_no_mark() -> None:
    """
    They are of another history.
    """
    found = LetterReplica("a", {0: "ABCD"}).found()
    fork = Fork(2 * BLOCK_BYTES, 1, "/b", 2)

    copy = make_copy(found, 0, fork)

    assert {BLOCK_BYTES: ord("A"), 2 * BLOCK_BYTES: ord("B")} == copy.marks
    assert fork == copy.fork
    assert make_copy(found, 0, Fork(SIZE, 1, "/b", 2)).fork is None


def test_the_seal_of_a_store_counts_below_its_fork() -> None:
    """
    The seal of the other one counts in the whole segment.
    """
    old = LetterReplica("a", {0: "AXYZ"}, seals={0: "AXYZ"}).found()
    new = LetterReplica("b", {0: "ABCD"}, seals={0: "ABCD"}).found()
    copies = [
        make_copy(old, 0, Fork(BLOCK_BYTES, 1, "/b", 2)),
        make_copy(new, 0, None),
    ]

    expected = right_marks(copies, 0)

    assert "ABCD" == "".join(map(chr, expected.marks.values()))
    assert 4 == len(expected.sealed)


def test_seals_that_differ_decide_nothing_where_they_differ() -> None:
    """
    Where they agree, they do.
    """
    copies = [
        make_copy(LetterReplica(name, {0: text}, seals={0: text}).found(), 0, None)
        for name, text in (("a", "ABCD"), ("b", "AxCD"))
    ]

    expected = right_marks(copies, 0)

    assert {2 * BLOCK_BYTES} == expected.ties
    assert {BLOCK_BYTES, 3 * BLOCK_BYTES, SIZE} == expected.sealed


def test_a_finding_that_reaches_over_blocks_takes_all_their_votes() -> None:
    """
    And none outside of the segment.
    """
    found = LetterReplica("a", {0: "ABCD", 1: "EFGH"}).found()
    found.add_note(Finding("queueOffset", SIZE - 10, "a gap", BLOCK_BYTES + 20))

    assert {3} == make_copy(found, 0, None).suspect
    assert {0, 1} == make_copy(found, SIZE, None).suspect


def test_marks_end_with_their_blocks() -> None:
    """
    The mark at a block's end is that of the block.
    """
    check = LetterReplica("a", {1: "AB"}).found().checks[SIZE]

    assert [SIZE + BLOCK_BYTES, SIZE + 2 * BLOCK_BYTES] == list(marks_of(check))
    assert [0, 1] == [block_of(SIZE, end) for end in marks_of(check)]


def test_a_copy_that_was_wrong_once_has_no_vote_on_later_marks_of_the_block() -> None:
    """
    The digest of a block contains that of its beginning: a short replica decides.
    """
    copies = [
        make_copy(LetterReplica(name, {0: "A"}).found(), 0, None) for name in "abc"
    ]
    copies[0].marks = {100: 1, BLOCK_BYTES: 5}
    copies[1].marks = {100: 2, BLOCK_BYTES: 6}
    copies[2].marks = {100: 1}

    expected = right_marks(copies, 0)

    assert {100: 1, BLOCK_BYTES: 5} == expected.marks
    assert set() == expected.ties
