"""
Which copy of a segment is wrong: by the seal, by the majority, or a tie.
"""

from __future__ import annotations

import pytest
from lib.spark.letter_replicas import (
    SIZE,
    LetterReplica,
    seal,
    verdict_words,
    verdicts_of,
)

from pystore.seals import BLOCK_BYTES
from pystore.spark.verify.check_replicas import check_replicas
from pystore.spark.verify.verdicts import Finding, Verdict


def test_equal_copies_are_ok() -> None:
    """
    Each copy confirms the others.
    """
    verdicts, differences = verdicts_of(
        *(LetterReplica(name, {0: "ABCD"}) for name in "abc")
    )

    assert dict.fromkeys("abc", "OK") == verdict_words(verdicts)
    assert [] == differences
    assert {2} == {one.replicas for one in verdicts.values()}


def test_the_digests_of_equal_copies_are_equal() -> None:
    """
    Other copies have other digests, even with the same blocks in another order.
    """
    verdicts, _ = verdicts_of(
        LetterReplica("a", {0: "AB"}),
        LetterReplica("b", {0: "AB"}),
        LetterReplica("c", {0: "BA"}),
    )
    a, b, c = (verdicts[name, 0].digest for name in "abc")

    assert a == b != c
    assert 32 == len(a)


def test_a_single_store_is_unsealed() -> None:
    """
    Nothing is wrong, but there is no seal and no replica to compare with.
    """
    verdicts, _ = verdicts_of(LetterReplica("a", {0: "ABCD"}))

    assert {"a": "UNSEALED"} == verdict_words(verdicts)


def test_a_sealed_segment_needs_no_replica() -> None:
    """
    Its seal confirms it.
    """
    verdicts, _ = verdicts_of(LetterReplica("a", {0: "ABCD"}, seals={0: "ABCD"}))

    assert {"a": "OK"} == verdict_words(verdicts)
    assert verdicts["a", 0].is_sealed


def test_blocks_that_agree_with_the_seal_are_ok() -> None:
    """
    The segment was read in part only.
    """
    verdicts, _ = verdicts_of(LetterReplica("a", {0: "A..D"}, seals={0: "ABCD"}))

    assert {"a": "OK"} == verdict_words(verdicts)


def test_the_majority_of_the_copies_is_right() -> None:
    """
    The other copy differs, and its verdict names the blocks.
    """
    verdicts, (found,) = verdicts_of(
        LetterReplica("a", {0: "ABCD"}),
        LetterReplica("b", {0: "AxCD"}),
        LetterReplica("c", {0: "ABCD"}),
    )

    assert {"a": "OK", "b": "DIVERGENT!", "c": "OK"} == verdict_words(verdicts)
    assert verdicts["b", 0] is found.verdict
    assert (1,) == found.blocks == found.verdict.blocks
    assert ("/a", False, True) == (found.reference, found.is_tie, found.agrees_behind)


def test_every_block_has_a_majority_of_its_own() -> None:
    """
    Two copies with damage in different blocks still have the right bytes together.
    """
    verdicts, differences = verdicts_of(
        LetterReplica("a", {0: "xBCD"}),
        LetterReplica("b", {0: "ABCx"}),
        LetterReplica("c", {0: "ABCD"}),
    )

    assert {"a": "DIVERGENT!", "b": "DIVERGENT!", "c": "OK"} == verdict_words(verdicts)
    assert [((0,), "/b"), ((3,), "/a")] == [
        (one.blocks, one.reference) for one in differences
    ]


def test_the_seal_outweighs_the_majority() -> None:
    """
    Most copies may be copies of a damaged disk image.
    """
    verdicts, differences = verdicts_of(
        LetterReplica("a", {0: "ABCD"}, seals={0: "ABCD"}),
        LetterReplica("b", {0: "AxCD"}),
        LetterReplica("c", {0: "AxCD"}),
    )

    assert {"a": "OK", "b": "DIVERGENT!", "c": "DIVERGENT!"} == verdict_words(verdicts)
    assert {"/a"} == {one.reference for one in differences}


def test_seals_that_contradict_each_other_do_not_count() -> None:
    """
    The majority decides then.
    """
    verdicts, _ = verdicts_of(
        LetterReplica("a", {0: "AxCD"}, seals={0: "AxCD"}),
        LetterReplica("b", {0: "ABCD"}, seals={0: "ABCD"}),
        LetterReplica("c", {0: "ABCD"}),
    )

    assert {"a": "DIVERGENT!", "b": "OK", "c": "OK"} == verdict_words(verdicts)


def test_a_seal_with_another_block_size_is_not_compared() -> None:
    """
    Another version may have made it; the majority of the copies decides.
    """
    made = [LetterReplica(name, {0: "ABCD"}).found() for name in "abc"]
    made[0].checks[0].seal = seal(0, "UVWXYZ", block_bytes=BLOCK_BYTES // 2)
    verdicts, differences = check_replicas(made)

    assert [Verdict.OK] * 3 == [one.verdict for one in verdicts]
    assert [] == differences


@pytest.mark.parametrize(
    "copies", [["A", "x"], ["A", "x", "y"], ["A", "A", "x", "x"], ["A", "A", "x", "y"]]
)
def test_without_a_majority_every_copy_that_differs_is_bad(copies: list[str]) -> None:
    """
    Half of the copies is no majority.
    """
    verdicts, differences = verdicts_of(
        *(
            LetterReplica(name, {0: "A" + letter})
            for name, letter in zip("abcd", copies, strict=False)
        )
    )

    assert {"DIVERGENT!"} == set(verdict_words(verdicts).values())
    assert len(copies) == len(differences)
    for one in differences:
        assert one.is_tie
        assert (1,) == one.blocks
        assert one.reference not in ("", one.verdict.store)


def test_the_reference_of_a_tie_differs_in_the_block() -> None:
    """
    Otherwise there would be no difference.
    """
    _, differences = verdicts_of(
        *(
            LetterReplica(name, {0: letter})
            for name, letter in zip("abcd", "AAxx", strict=True)
        )
    )

    assert ["/c", "/c", "/a", "/a"] == [one.reference for one in differences]


def test_a_damaged_copy_has_no_vote() -> None:
    """
    Of two copies the undamaged one is right.
    """
    verdicts, (found,) = verdicts_of(
        LetterReplica("a", {0: "AxCD"}, own={0: [1]}), LetterReplica("b", {0: "ABCD"})
    )

    assert {"a": "CORRUPT!", "b": "OK"} == verdict_words(verdicts)
    assert ("/b", False) == (found.reference, found.is_tie)
    assert (1,) == verdicts["a", 0].blocks


def test_a_damaged_copy_has_a_vote_on_its_undamaged_blocks() -> None:
    """
    With its vote there is a majority of two to one.
    """
    verdicts, _ = verdicts_of(
        LetterReplica("a", {0: "xBCD"}, own={0: [0]}),
        LetterReplica("b", {0: "ABCD"}),
        LetterReplica("c", {0: "ABCx"}),
    )

    assert {"a": "CORRUPT!", "b": "OK", "c": "DIVERGENT!"} == verdict_words(verdicts)


def test_if_all_copies_are_damaged_none_is_divergent() -> None:
    """
    Each copy is bad because of its own records.
    """
    verdicts, differences = verdicts_of(
        LetterReplica("a", {0: "AxCD"}, own={0: [1]}),
        LetterReplica("b", {0: "AyCD"}, own={0: [1]}),
    )

    assert {"a": "CORRUPT!", "b": "CORRUPT!"} == verdict_words(verdicts)
    assert [] == differences


def test_a_verdict_names_damaged_and_different_blocks() -> None:
    """
    One copy may have both.
    """
    verdicts, _ = verdicts_of(
        LetterReplica("a", {0: "xBCx"}, own={0: [0]}),
        LetterReplica("b", {0: "ABCD"}),
        LetterReplica("c", {0: "ABCD"}),
    )

    assert (0, 3) == verdicts["a", 0].blocks
    assert ["record: bad"] == verdicts["a", 0].evidence


def test_a_finding_that_spans_blocks_names_all_of_them() -> None:
    """
    If a scan cannot continue, all bytes that it skipped are bad.
    """
    made = LetterReplica("a", {0: "ABCD"}).found()
    made.add(Finding("record", BLOCK_BYTES - 1, "zeros", BLOCK_BYTES + 2))
    (verdict,), _ = check_replicas([made])

    assert (0, 1, 2) == verdict.blocks


def test_a_gap_of_queue_offsets_is_a_note() -> None:
    """
    It is no damage by itself.
    """
    verdicts, differences = verdicts_of(
        LetterReplica("a", {0: "AB"}, suspect={0: [1]}), LetterReplica("b", {0: "AB"})
    )

    assert {"a": "OK", "b": "OK"} == verdict_words(verdicts)
    assert ["note: a gap"] == verdicts["a", 0].evidence
    assert [] == differences


def test_two_copies_that_their_queues_contradict_do_not_outvote_the_third() -> None:
    """
    Both were damaged alike; each says so itself.
    """
    verdicts, _ = verdicts_of(
        LetterReplica("a", {0: "ABCD"}),
        LetterReplica("b", {0: "AxCD"}, suspect={0: [1]}),
        LetterReplica("c", {0: "AxCD"}, suspect={0: [1]}),
    )

    assert {"a": "OK", "b": "DIVERGENT!", "c": "DIVERGENT!"} == verdict_words(verdicts)
    assert (1,) == verdicts["b", 0].blocks


def test_a_gap_that_every_copy_has_takes_no_vote() -> None:
    """
    It is of the log, so the majority decides.
    """
    gap = {0: [1]}
    verdicts, _ = verdicts_of(
        LetterReplica("a", {0: "ABCD"}, suspect=gap),
        LetterReplica("b", {0: "AxCD"}, suspect=gap),
        LetterReplica("c", {0: "ABCD"}, suspect=gap),
    )

    assert {"a": "OK", "b": "DIVERGENT!", "c": "OK"} == verdict_words(verdicts)


# -- epochs --------------------------------------------------------------------


def test_the_highest_epoch_is_right_and_not_the_seal_of_an_old_master() -> None:
    """
    The old master sealed what nobody acknowledged.
    """
    fork = SIZE + BLOCK_BYTES
    verdicts, differences = verdicts_of(
        LetterReplica("a", {0: "ABCD", 1: "ExYZ"}, seals={1: "ExYZ"}, epochs=[(1, 0)]),
        LetterReplica("b", {0: "ABCD", 1: "EFGH"}, epochs=[(1, 0), (2, fork)]),
    )

    assert {"a": "OK", "b": "OK"} == verdict_words(verdicts)
    assert "OK" == verdicts["b", 1].verdict
    assert ("DIVERGENT", True, fork) == (
        verdicts["a", 1].verdict,
        verdicts["a", 1].is_bad,
        verdicts["a", 1].first_difference,
    )
    (text,) = verdicts["a", 1].evidence
    assert f"from offset {fork} on it holds epoch 1, and /b" in text
    assert "holds epoch 2" in text
    assert [] == differences


def test_a_majority_does_not_outvote_the_highest_epoch() -> None:
    """
    Two replicas followed the old master.
    """
    verdicts, _ = verdicts_of(
        LetterReplica("a", {0: "ABXX", 1: "YYYY"}, epochs=[(1, 0)]),
        LetterReplica("b", {0: "ABXX", 1: "YYYY"}, epochs=[(1, 0)]),
        LetterReplica("c", {0: "ABCD"}, epochs=[(1, 0), (2, 2 * BLOCK_BYTES)]),
    )

    assert {"a": "DIVERGENT!", "b": "DIVERGENT!", "c": "OK"} == verdict_words(verdicts)
    assert ("DIVERGENT", SIZE) == (
        verdicts["a", 1].verdict,
        verdicts["a", 1].first_difference,
    )


def test_damage_below_a_fork_is_told_from_the_fork() -> None:
    """
    Below it, the copies are of one history.
    """
    verdicts, differences = verdicts_of(
        LetterReplica("a", {0: "AxXX"}, epochs=[(1, 0)]),
        LetterReplica("b", {0: "ABCD"}, epochs=[(1, 0), (2, 3 * BLOCK_BYTES)]),
        LetterReplica("c", {0: "ABCD"}, epochs=[(1, 0), (2, 3 * BLOCK_BYTES)]),
    )

    assert {"a": "DIVERGENT!", "b": "OK", "c": "OK"} == verdict_words(verdicts)
    (one,) = differences
    assert ("/a", (1, 2)) == (one.verdict.store, one.blocks)


def test_an_epoch_table_that_the_bytes_refute_cuts_nothing() -> None:
    """
    Two histories differ in every later record, and these are equal.
    """
    verdicts, _ = verdicts_of(
        LetterReplica("a", {0: "ABCD"}, epochs=[(1, 0)]),
        LetterReplica("b", {0: "ABCD"}, epochs=[(1, 0)]),
        LetterReplica("c", {0: "ABCD"}, epochs=[(3, 0)]),
    )

    assert {"a": "OK", "b": "OK", "c": "OK"} == verdict_words(verdicts)
    for name in "abc":
        row = verdicts[name, None]
        assert row.is_bad
        assert "before anything is cut" in row.evidence[0]


def test_a_lagging_replica_has_no_fork() -> None:
    """
    It has no byte of the new epoch yet.
    """
    verdicts, _ = verdicts_of(
        LetterReplica("a", {0: "ABCD"}, epochs=[(1, 0)]),
        LetterReplica("b", {0: "ABCD", 1: "EF"}, epochs=[(1, 0), (2, SIZE)]),
    )

    assert not any(one.is_bad for one in verdicts.values())


def test_the_last_copies_of_a_segment_are_to_be_kept() -> None:
    """
    No replica has it whole.
    """
    verdicts, _ = verdicts_of(
        LetterReplica("a", {0: "ABCD"}, own={0: [1]}),
        LetterReplica("b", {0: "ABCD"}, own={0: [2]}),
    )

    for name in "ab":
        assert "keep every copy that is left" in verdicts[name, 0].evidence[-1]
