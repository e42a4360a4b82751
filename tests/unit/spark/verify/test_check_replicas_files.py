"""
Missing, incomplete and incomparable segments, and other files.
"""

from __future__ import annotations

from lib.spark.letter_replicas import SIZE, LetterReplica, verdict_words, verdicts_of

from pystore.seals import BLOCK_BYTES
from pystore.spark.verify.check_replicas import check_replicas
from pystore.spark.verify.verdicts import Finding, Verdict

# -- missing segments ------------------------------------------------------------


def test_a_segment_that_is_missing_between_others_is_absent() -> None:
    """
    An operator has to restore it.
    """
    verdicts, _ = verdicts_of(
        LetterReplica("a", {0: "ABCD", 2: "ABCD"}),
        LetterReplica("b", {0: "ABCD", 1: "ABCD", 2: "ABCD"}),
    )

    assert (Verdict.ABSENT, True) == (
        verdicts["a", 1].verdict,
        verdicts["a", 1].is_bad,
    )
    assert ["the file is missing: take it from a replica"] == verdicts["a", 1].evidence
    assert 0 == verdicts["b", 1].replicas


def test_a_missing_segment_is_found_without_a_replica() -> None:
    """
    Its neighbours exist.
    """
    verdicts, _ = verdicts_of(LetterReplica("a", {0: "ABCD", 2: "ABCD"}))

    assert [Verdict.UNSEALED, Verdict.ABSENT, Verdict.UNSEALED] == [
        verdicts["a", number].verdict for number in range(3)
    ]


def test_a_missing_last_segment_is_bad_if_the_bound_is_above_it() -> None:
    """
    The store's own bound shows that the segment existed.
    """
    verdicts, _ = verdicts_of(LetterReplica("a", {0: "ABCD"}, expected_end=SIZE + 100))

    assert (Verdict.ABSENT, True) == (
        verdicts["a", 1].verdict,
        verdicts["a", 1].is_bad,
    )


def test_a_segment_that_retention_deleted_is_absent_and_not_bad() -> None:
    """
    Replicas delete their oldest segments at different times.
    """
    verdicts, _ = verdicts_of(
        LetterReplica("a", {2: "ABCD"}),
        LetterReplica("b", {0: "ABCD", 1: "ABCD", 2: "ABCD"}),
    )

    for number in (0, 1):
        one = verdicts["a", number]
        assert (Verdict.ABSENT, False) == (one.verdict, one.is_bad)
        assert f"the log begins at {2 * SIZE}" in one.evidence[0]


def test_later_segments_of_a_lagging_replica_are_absent_and_not_bad() -> None:
    """
    The evidence says how far behind the replica is.
    """
    verdicts, _ = verdicts_of(
        LetterReplica("a", {0: "ABCD"}),
        LetterReplica("b", {0: "ABCD", 1: "AB"}, end=SIZE + 1000),
    )
    one = verdicts["a", 1]

    assert (Verdict.ABSENT, False) == (one.verdict, one.is_bad)
    assert [
        f"the log ends at {SIZE}, 1000 bytes behind the longest replica"
    ] == one.evidence


def test_a_segment_of_a_wrong_size_is_corrupt() -> None:
    """
    The file exists, but its size is wrong.
    """
    verdicts, _ = verdicts_of(
        LetterReplica("a", {0: "ABCD", 2: "ABCD"}, odd={1: 7}),
        LetterReplica("b", {0: "ABCD", 1: "ABCD", 2: "ABCD"}),
    )
    one = verdicts["a", 1]

    assert (Verdict.CORRUPT, True) == (one.verdict, one.is_bad)
    assert [f"file: it has 7 bytes instead of {SIZE}"] == one.evidence


def test_a_segment_that_another_round_checks_gets_no_verdict() -> None:
    """
    The file exists, but this round did not read it.
    """
    made = LetterReplica("a", {0: "ABCD", 1: "ABCD"}).found()
    del made.checks[0]
    verdicts, _ = check_replicas([made])

    assert [SIZE] == [one.segment for one in verdicts]


def test_a_segment_that_could_not_be_read_is_unknown() -> None:
    """
    It is not bad; the other copies are compared without it.
    """
    verdicts, _ = verdicts_of(
        LetterReplica("a", {}, errors={0: "no such disk"}),
        LetterReplica("b", {0: "ABCD"}),
        LetterReplica("c", {0: "ABCD"}),
    )

    assert {"a": "UNKNOWN", "b": "OK", "c": "OK"} == verdict_words(verdicts)
    assert ["no such disk"] == verdicts["a", 0].evidence


def test_a_segment_above_the_log_s_end_is_an_orphan() -> None:
    """
    It holds bytes, and opening the store removes it. No operator has to act.
    """
    verdicts, _ = verdicts_of(LetterReplica("a", {0: "AB", 1: "AB"}, end=BLOCK_BYTES))
    one = verdicts["a", 1]

    assert (Verdict.ORPHAN, False) == (one.verdict, one.is_bad)
    assert f"the log ends at {BLOCK_BYTES}" in one.evidence[0]


def test_an_empty_segment_above_the_end_gets_no_verdict() -> None:
    """
    The writer makes it in advance.
    """
    verdicts, _ = verdicts_of(LetterReplica("a", {0: "AB", 1: ""}, end=BLOCK_BYTES))

    assert [("a", 0)] == list(verdicts)


def test_a_torn_tail_is_reported_and_is_not_bad() -> None:
    """
    A crash leaves it, and opening the store cuts it.
    """
    made = LetterReplica("a", {0: "AB"}, end=BLOCK_BYTES).found()
    made.torn_reason = "half a record"
    (verdict,), _ = check_replicas([made])

    assert (Verdict.UNSEALED, False) == (verdict.verdict, verdict.is_bad)
    assert [f"torn at {BLOCK_BYTES}: half a record; opening the store cuts it"] == (
        verdict.evidence
    )


def test_the_length_of_the_last_segment_ends_with_the_log() -> None:
    """
    The last segment is not full.
    """
    verdicts, _ = verdicts_of(LetterReplica("a", {0: "ABCD", 1: "A"}, end=SIZE + 5000))

    assert [SIZE, 5000] == [verdicts["a", number].length for number in (0, 1)]
    assert [40, 10] == [verdicts["a", number].records for number in (0, 1)]


# -- incomparable replicas, and other files --------------------------------------


def test_segments_of_two_sizes_cannot_be_compared() -> None:
    """
    Replicas are not compared, but damage is still found.
    """
    small = SIZE // 2
    verdicts, differences = check_replicas(
        [
            LetterReplica("a", {0: "ABCD"}).found(),
            LetterReplica("b", {0: "xy", 1: "zz"}, size=small, own={0: [1]}).found(),
        ]
    )
    found = {(one.store, one.segment): one for one in verdicts}

    assert Verdict.UNKNOWN == found["/a", 0].verdict
    assert Verdict.CORRUPT == found["/b", 0].verdict
    assert Verdict.UNKNOWN == found["/b", small].verdict
    assert [] == differences
    assert 3 == len(verdicts)
    text = f"replicas have segments of {small} and {SIZE} bytes"
    assert all(text in one.evidence[-1] for one in verdicts)


def test_an_empty_store_does_not_make_replicas_incomparable() -> None:
    """
    It has no segments, and so no segment size.
    """
    verdicts, _ = verdicts_of(
        LetterReplica("a", {0: "A"}),
        LetterReplica("b", {0: "A"}),
        LetterReplica("c", {}),
    )

    assert {"a": "OK", "b": "OK", "c": "ABSENT"} == verdict_words(verdicts)
    assert "the log is empty" in verdicts["c", 0].evidence[0]


def test_each_file_that_is_no_segment_has_a_verdict() -> None:
    """
    The verdict names the file and says what to do.
    """
    orphans = (("a.bak", "no segment has this name"), ("x", "it is not a file"))
    verdicts, _ = check_replicas(
        [LetterReplica("a", {0: "A"}, orphans=orphans).found()]
    )

    assert [("a.bak", None), ("x", None)] == [
        (one.name, one.segment) for one in verdicts if one.verdict is Verdict.ORPHAN
    ]
    assert ["no segment has this name"] == verdicts[1].evidence
    assert verdicts[1].is_bad


def test_findings_about_files_have_rows_of_their_own() -> None:
    """
    With the segment that decides them. The verdicts on the segments stay the same.
    """
    findings = [
        Finding("consumeQueue", 5, "names nothing"),
        Finding("epoch", None, "unreadable"),
    ]
    verdicts, _ = verdicts_of(
        LetterReplica("a", {0: "A"}, of_store=findings), LetterReplica("b", {0: "A"})
    )

    assert {"a": "OK", "b": "OK"} == verdict_words(verdicts)
    epochs, queues = verdicts["a", None], verdicts["a/consumequeue", 0]
    assert (Verdict.CORRUPT, True) == (queues.verdict, queues.is_bad)
    assert ["consumeQueue: names nothing"] == queues.evidence
    assert ("epochs", ["epoch: unreadable"]) == (epochs.name, epochs.evidence)
    assert ("b", None) not in verdicts


def test_no_stores_have_no_verdicts() -> None:
    """
    There are no differences either.
    """
    assert ([], []) == check_replicas([])
