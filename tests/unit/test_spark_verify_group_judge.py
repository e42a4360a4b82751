"""
Which copy of a segment is wrong: by its seal, by the majority, or nobody can tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pystore.rows import NO_OFFSET
from pystore.seals import BLOCK_BYTES, Seal
from pystore.spark.verify.group_judge import Difference, judge_group
from pystore.spark.verify.listing import Listing
from pystore.spark.verify.plan import StorePlan
from pystore.spark.verify.store_judge import StoreFindings
from pystore.spark.verify.task import SegmentCheck, StoreShare
from pystore.spark.verify.verdicts import Finding, SegmentVerdict, Verdict
from pystore.torn import Bound
from pystore.verify.report import SegmentReport

BLOCKS = 4
SIZE = BLOCKS * BLOCK_BYTES
DAMAGE = "record"


@dataclass
class Made:
    """
    A replica in a few words.

    Attributes:
        name: of the store.
        segments: a letter for each block, by number of the segment; equal letters
            are equal bytes, and a point is a block that was not read.
        end: of the log; by default that of the last segment.
        expected_end: up to where the store says that there is a log.
        own: blocks whose records are bad, by number of the segment.
        seals: letters as they were sealed, by number of the segment.
        errors: why a segment could not be read.
        orphans: files that are no segments.
        odd: sizes of segments of a wrong size, by number.
        missing: numbers of segments below the end that are not there.
        of_store: what else is wrong.
        size: of a segment.
    """

    name: str
    segments: Mapping[int, str]
    end: int | None = None
    expected_end: int | None = None
    own: Mapping[int, Sequence[int]] = field(default_factory=dict)
    seals: Mapping[int, str] = field(default_factory=dict)
    errors: Mapping[int, str] = field(default_factory=dict)
    orphans: tuple[tuple[str, str], ...] = ()
    odd: Mapping[int, int] = field(default_factory=dict)
    of_store: Sequence[Finding] = ()
    size: int = SIZE

    def found(self) -> StoreFindings:
        """
        The same, as it would be found.
        """
        size = self.size
        there = sorted({*self.segments, *self.odd, *self.errors})
        bases = tuple(number * size for number in there)
        odd = {number * size: bytes_ for number, bytes_ in self.odd.items()}
        end = self.end
        if end is None:
            end = bases[-1] + size if bases else 0
        plan = StorePlan(
            root=Path("/", self.name),
            group="g",
            listing=Listing(size if bases else 0, bases, odd, self.orphans),
            end=end,
            bound=Bound(end),
            generation=None,
            share=StoreShare(f"/{self.name}", "g", NO_OFFSET),
        )
        checks = {number * size: self._check(number) for number in self.segments}
        for number, text in self.errors.items():
            base = number * size
            checks[base] = SegmentCheck(f"/{self.name}", base, error=text)
        found = StoreFindings(plan, checks, end=end, expected_end=end)
        if self.expected_end is not None:
            found.expected_end = self.expected_end
        for number, blocks in self.own.items():
            for block in blocks:
                offset = number * size + block * BLOCK_BYTES + 100
                found.add(Finding(DAMAGE, offset, "bad", 10))
        for finding in self.of_store:
            found.add(finding)
        return found

    def _check(self, number: int) -> SegmentCheck:
        letters, base = self.segments[number], number * self.size
        sealed = self.seals.get(number)
        count = len(letters)
        return SegmentCheck(
            f"/{self.name}",
            base,
            report=SegmentReport(
                base_offset=base,
                end_offset=base + count * BLOCK_BYTES,
                is_full=count == BLOCKS,
                record_end=None,
                scanned_bytes=count * BLOCK_BYTES,
                row_bytes=0,
                records=10 * count,
                unproved=0,
                uncovered_bytes=0,
                faults=(),
            ),
            digests={i: ord(one) for i, one in enumerate(letters) if one != "."},
            digest_end=base + count * BLOCK_BYTES,
            seal=None if sealed is None else seal(base, sealed),
            is_sealed_whole=sealed == letters,
        )


def seal(base: int, letters: str, block_bytes: int = BLOCK_BYTES) -> Seal:
    """
    Of a segment with these blocks.
    """
    return Seal(
        group="g",
        start_offset=base,
        length_bytes=len(letters) * BLOCK_BYTES,
        record_count=1,
        first_store_ms=0,
        last_store_ms=0,
        epochs=(),
        block_bytes=block_bytes,
        block_digests=tuple(map(ord, letters)),
        digest=letters.encode().ljust(16, b"\0"),
        chain=bytes(16),
    )


def judge(
    *made: Made,
) -> tuple[dict[tuple[str, int | None], SegmentVerdict], list[Difference]]:
    """
    The verdicts by name of the store and number of the segment, and what differs.
    """
    verdicts, differences = judge_group([one.found() for one in made])
    sizes = {f"/{one.name}": one.size for one in made}
    by_place: dict[tuple[str, int | None], SegmentVerdict] = {}
    for one in verdicts:
        number = None if one.segment is None else one.segment // sizes[one.store]
        assert (one.store[1:], number) not in by_place
        by_place[one.store[1:], number] = one
    return by_place, differences


def words(verdicts: Mapping[tuple[str, int | None], SegmentVerdict]) -> dict[str, str]:
    """
    The words of the first segment's copies, with a mark behind the bad ones.
    """
    return {
        name: str(one.verdict) + "!" * one.is_bad
        for (name, number), one in verdicts.items()
        if number == 0
    }


# -- which copy is right ---------------------------------------------------------


def test_equal_copies_are_ok() -> None:
    """
    Each vouches for the others.
    """
    verdicts, differences = judge(*(Made(name, {0: "ABCD"}) for name in "abc"))

    assert dict.fromkeys("abc", "OK") == words(verdicts)
    assert [] == differences
    assert {2} == {one.replicas for one in verdicts.values()}


def test_the_digests_of_equal_copies_are_equal() -> None:
    """
    And those of others are not, also if the same blocks stand elsewhere.
    """
    verdicts, _ = judge(
        Made("a", {0: "AB"}), Made("b", {0: "AB"}), Made("c", {0: "BA"})
    )
    a, b, c = (verdicts[name, 0].digest for name in "abc")

    assert a == b != c
    assert 32 == len(a)


def test_a_store_by_itself_is_unsealed() -> None:
    """
    Nobody vouches for it, and nothing is wrong.
    """
    verdicts, _ = judge(Made("a", {0: "ABCD"}))

    assert {"a": "UNSEALED"} == words(verdicts)


def test_a_sealed_segment_needs_no_replica() -> None:
    """
    Its seal vouches for it.
    """
    verdicts, _ = judge(Made("a", {0: "ABCD"}, seals={0: "ABCD"}))

    assert {"a": "OK"} == words(verdicts)
    assert verdicts["a", 0].is_sealed


def test_blocks_that_agree_with_the_seal_are_ok() -> None:
    """
    Of a segment that was read in part.
    """
    verdicts, _ = judge(Made("a", {0: "A..D"}, seals={0: "ABCD"}))

    assert {"a": "OK"} == words(verdicts)


def test_most_copies_are_right() -> None:
    """
    The other one differs, and says in which blocks.
    """
    verdicts, (found,) = judge(
        Made("a", {0: "ABCD"}), Made("b", {0: "AxCD"}), Made("c", {0: "ABCD"})
    )

    assert {"a": "OK", "b": "DIVERGENT!", "c": "OK"} == words(verdicts)
    assert verdicts["b", 0] is found.verdict
    assert (1,) == found.blocks == found.verdict.blocks
    assert ("/a", False, True) == (found.reference, found.is_tie, found.agrees_behind)


def test_every_block_has_a_majority_of_its_own() -> None:
    """
    Two copies with damage in different places mend each other.
    """
    verdicts, differences = judge(
        Made("a", {0: "xBCD"}), Made("b", {0: "ABCx"}), Made("c", {0: "ABCD"})
    )

    assert {"a": "DIVERGENT!", "b": "DIVERGENT!", "c": "OK"} == words(verdicts)
    assert [((0,), "/b"), ((3,), "/a")] == [
        (one.blocks, one.reference) for one in differences
    ]


def test_the_seal_says_more_than_most_copies() -> None:
    """
    A damaged disk image may have been copied.
    """
    verdicts, differences = judge(
        Made("a", {0: "ABCD"}, seals={0: "ABCD"}),
        Made("b", {0: "AxCD"}),
        Made("c", {0: "AxCD"}),
    )

    assert {"a": "OK", "b": "DIVERGENT!", "c": "DIVERGENT!"} == words(verdicts)
    assert {"/a"} == {one.reference for one in differences}


def test_seals_that_contradict_each_other_say_nothing() -> None:
    """
    The majority decides then.
    """
    verdicts, _ = judge(
        Made("a", {0: "AxCD"}, seals={0: "AxCD"}),
        Made("b", {0: "ABCD"}, seals={0: "ABCD"}),
        Made("c", {0: "ABCD"}),
    )

    assert {"a": "DIVERGENT!", "b": "OK", "c": "OK"} == words(verdicts)


def test_a_seal_of_other_blocks_is_not_compared() -> None:
    """
    It may have been made by another version; the copies have a majority.
    """
    made = [Made(name, {0: "ABCD"}).found() for name in "abc"]
    made[0].checks[0].seal = seal(0, "UVWXYZ", block_bytes=BLOCK_BYTES // 2)
    verdicts, differences = judge_group(made)

    assert [Verdict.OK] * 3 == [one.verdict for one in verdicts]
    assert [] == differences


@pytest.mark.parametrize(
    "copies", [["A", "x"], ["A", "x", "y"], ["A", "A", "x", "x"], ["A", "A", "x", "y"]]
)
def test_without_a_majority_nobody_can_tell(copies: list[str]) -> None:
    """
    Half of the copies is none; every one is named.
    """
    verdicts, differences = judge(
        *(
            Made(name, {0: "A" + letter})
            for name, letter in zip("abcd", copies, strict=False)
        )
    )

    assert {"DIVERGENT!"} == set(words(verdicts).values())
    assert len(copies) == len(differences)
    for one in differences:
        assert one.is_tie
        assert (1,) == one.blocks
        assert one.reference not in ("", one.verdict.store)


def test_the_reference_of_a_tie_has_the_block_otherwise() -> None:
    """
    Else nothing would differ.
    """
    _, differences = judge(
        *(Made(name, {0: letter}) for name, letter in zip("abcd", "AAxx", strict=True))
    )

    assert ["/c", "/c", "/a", "/a"] == [one.reference for one in differences]


def test_a_damaged_copy_has_no_say() -> None:
    """
    Of two copies the one that is whole is right.
    """
    verdicts, (found,) = judge(
        Made("a", {0: "AxCD"}, own={0: [1]}), Made("b", {0: "ABCD"})
    )

    assert {"a": "CORRUPT!", "b": "OK"} == words(verdicts)
    assert ("/b", False) == (found.reference, found.is_tie)
    assert (1,) == verdicts["a", 0].blocks


def test_a_damaged_copy_has_a_say_about_its_whole_blocks() -> None:
    """
    With it there are two against one.
    """
    verdicts, _ = judge(
        Made("a", {0: "xBCD"}, own={0: [0]}),
        Made("b", {0: "ABCD"}),
        Made("c", {0: "ABCx"}),
    )

    assert {"a": "CORRUPT!", "b": "OK", "c": "DIVERGENT!"} == words(verdicts)


def test_where_all_copies_are_damaged_none_is_called_another_log() -> None:
    """
    Each is bad by what it says itself.
    """
    verdicts, differences = judge(
        Made("a", {0: "AxCD"}, own={0: [1]}), Made("b", {0: "AyCD"}, own={0: [1]})
    )

    assert {"a": "CORRUPT!", "b": "CORRUPT!"} == words(verdicts)
    assert [] == differences


def test_the_blocks_of_damage_and_of_a_difference_are_named_together() -> None:
    """
    One copy may have both.
    """
    verdicts, _ = judge(
        Made("a", {0: "xBCx"}, own={0: [0]}),
        Made("b", {0: "ABCD"}),
        Made("c", {0: "ABCD"}),
    )

    assert (0, 3) == verdicts["a", 0].blocks
    assert ["record: bad"] == verdicts["a", 0].evidence


def test_a_finding_that_spans_blocks_names_all_of_them() -> None:
    """
    Where a scan could not go on, all that it passed over is bad.
    """
    made = Made("a", {0: "ABCD"}).found()
    made.add(Finding("record", BLOCK_BYTES - 1, "zeros", BLOCK_BYTES + 2))
    (verdict,), _ = judge_group([made])

    assert (0, 1, 2) == verdict.blocks


def test_a_wrong_queue_offset_says_nothing_about_bytes() -> None:
    """
    The segment is bad, and none of its blocks is; it keeps its say.
    """
    finding = Finding("queueOffset", 100, "queue offset 8 and not 5")
    verdicts, differences = judge(
        Made("a", {0: "AB"}, of_store=[finding]), Made("b", {0: "AB"})
    )

    assert {"a": "CORRUPT!", "b": "OK"} == words(verdicts)
    assert () == verdicts["a", 0].blocks
    assert ["queueOffset: queue offset 8 and not 5"] == verdicts["a", 0].evidence
    assert [] == differences


# -- what is not there -----------------------------------------------------------


def test_a_segment_that_is_missing_between_others_is_absent() -> None:
    """
    Somebody has to bring it back.
    """
    verdicts, _ = judge(
        Made("a", {0: "ABCD", 2: "ABCD"}),
        Made("b", {0: "ABCD", 1: "ABCD", 2: "ABCD"}),
    )

    assert (Verdict.ABSENT, True) == (
        verdicts["a", 1].verdict,
        verdicts["a", 1].is_bad,
    )
    assert ["the file is missing: take it from a replica"] == verdicts["a", 1].evidence
    assert 0 == verdicts["b", 1].replicas


def test_a_hole_is_found_without_a_replica() -> None:
    """
    Its neighbours are here.
    """
    verdicts, _ = judge(Made("a", {0: "ABCD", 2: "ABCD"}))

    assert [Verdict.UNSEALED, Verdict.ABSENT, Verdict.UNSEALED] == [
        verdicts["a", number].verdict for number in range(3)
    ]


def test_a_missing_last_segment_is_bad_if_the_store_says_that_it_was_there() -> None:
    """
    By its own bound.
    """
    verdicts, _ = judge(Made("a", {0: "ABCD"}, expected_end=SIZE + 100))

    assert (Verdict.ABSENT, True) == (
        verdicts["a", 1].verdict,
        verdicts["a", 1].is_bad,
    )


def test_what_retention_deleted_is_absent_and_not_bad() -> None:
    """
    Replicas delete each at its own time.
    """
    verdicts, _ = judge(
        Made("a", {2: "ABCD"}), Made("b", {0: "ABCD", 1: "ABCD", 2: "ABCD"})
    )

    for number in (0, 1):
        one = verdicts["a", number]
        assert (Verdict.ABSENT, False) == (one.verdict, one.is_bad)
        assert f"the log begins at {2 * SIZE}" in one.evidence[0]


def test_a_replica_that_lags_has_not_got_the_rest_yet() -> None:
    """
    It says how far behind it is.
    """
    verdicts, _ = judge(
        Made("a", {0: "ABCD"}), Made("b", {0: "ABCD", 1: "AB"}, end=SIZE + 1000)
    )
    one = verdicts["a", 1]

    assert (Verdict.ABSENT, False) == (one.verdict, one.is_bad)
    assert [f"the log ends at {SIZE}, 1000 bytes behind"] == one.evidence


def test_a_segment_of_a_wrong_size_is_corrupt() -> None:
    """
    It is there, and is not what it should be.
    """
    verdicts, _ = judge(
        Made("a", {0: "ABCD", 2: "ABCD"}, odd={1: 7}),
        Made("b", {0: "ABCD", 1: "ABCD", 2: "ABCD"}),
    )
    one = verdicts["a", 1]

    assert (Verdict.CORRUPT, True) == (one.verdict, one.is_bad)
    assert [f"file: it has 7 bytes instead of {SIZE}"] == one.evidence


def test_a_segment_that_another_round_checks_gets_no_verdict() -> None:
    """
    It is there; nobody looked at it.
    """
    made = Made("a", {0: "ABCD", 1: "ABCD"}).found()
    del made.checks[0]
    verdicts, _ = judge_group([made])

    assert [SIZE] == [one.segment for one in verdicts]


def test_a_segment_that_could_not_be_read_is_unknown() -> None:
    """
    That is no mark against it; the other copies are judged without it.
    """
    verdicts, _ = judge(
        Made("a", {}, errors={0: "no such disk"}),
        Made("b", {0: "ABCD"}),
        Made("c", {0: "ABCD"}),
    )

    assert {"a": "UNKNOWN", "b": "OK", "c": "OK"} == words(verdicts)
    assert ["no such disk"] == verdicts["a", 0].evidence


def test_a_segment_above_the_log_s_end_is_an_orphan() -> None:
    """
    It holds something, and opening removes it; nobody has to act.
    """
    verdicts, _ = judge(Made("a", {0: "AB", 1: "AB"}, end=BLOCK_BYTES))
    one = verdicts["a", 1]

    assert (Verdict.ORPHAN, False) == (one.verdict, one.is_bad)
    assert f"the log ends at {BLOCK_BYTES}" in one.evidence[0]


def test_an_empty_segment_above_the_end_is_not_worth_a_word() -> None:
    """
    The writer makes it ahead of time.
    """
    verdicts, _ = judge(Made("a", {0: "AB", 1: ""}, end=BLOCK_BYTES))

    assert [("a", 0)] == list(verdicts)


def test_a_torn_tail_is_told_and_is_not_bad() -> None:
    """
    A crash leaves one, and opening cuts it.
    """
    made = Made("a", {0: "AB"}, end=BLOCK_BYTES).found()
    made.torn_reason = "half a record"
    (verdict,), _ = judge_group([made])

    assert (Verdict.UNSEALED, False) == (verdict.verdict, verdict.is_bad)
    assert [f"torn at {BLOCK_BYTES}: half a record; opening cuts it"] == (
        verdict.evidence
    )


def test_a_segment_has_as_many_bytes_as_its_log_reaches_into_it() -> None:
    """
    The last one is not full.
    """
    verdicts, _ = judge(Made("a", {0: "ABCD", 1: "A"}, end=SIZE + 5000))

    assert [SIZE, 5000] == [verdicts["a", number].length for number in (0, 1)]
    assert [40, 10] == [verdicts["a", number].records for number in (0, 1)]


# -- what cannot be compared, and what is beside ---------------------------------


def test_segments_of_two_sizes_cannot_be_compared() -> None:
    """
    Nothing is said about replicas, and damage is still damage.
    """
    small = SIZE // 2
    verdicts, differences = judge_group(
        [
            Made("a", {0: "ABCD"}).found(),
            Made("b", {0: "xy", 1: "zz"}, size=small, own={0: [1]}).found(),
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
    It has no segments, and so no size.
    """
    verdicts, _ = judge(Made("a", {0: "A"}), Made("b", {0: "A"}), Made("c", {}))

    assert {"a": "OK", "b": "OK", "c": "ABSENT"} == words(verdicts)
    assert "the log is empty" in verdicts["c", 0].evidence[0]


def test_each_file_that_is_no_segment_has_a_verdict() -> None:
    """
    With its name, and what to do.
    """
    orphans = (("a.bak", "no segment has this name"), ("x", "it is not a file"))
    verdicts, _ = judge_group([Made("a", {0: "A"}, orphans=orphans).found()])

    assert [("a.bak", None), ("x", None)] == [
        (one.name, one.segment) for one in verdicts if one.verdict is Verdict.ORPHAN
    ]
    assert ["no segment has this name: move it away"] == verdicts[1].evidence
    assert verdicts[1].is_bad


def test_what_is_wrong_beside_the_segments_is_one_verdict() -> None:
    """
    The segments are not touched by it.
    """
    findings = [
        Finding("consumeQueue", 5, "names nothing"),
        Finding("epoch", None, "unreadable"),
    ]
    verdicts, _ = judge(Made("a", {0: "A"}, of_store=findings), Made("b", {0: "A"}))

    assert {"a": "OK", "b": "OK"} == words(verdicts)
    one = verdicts["a", None]
    assert (Verdict.CORRUPT, True) == (one.verdict, one.is_bad)
    assert ["consumeQueue: names nothing", "epoch: unreadable"] == one.evidence
    assert ("b", None) not in verdicts


def test_no_stores_have_no_verdicts() -> None:
    """
    Nor differences.
    """
    assert ([], []) == judge_group([])
