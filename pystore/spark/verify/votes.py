"""
The right bytes of one segment, by the copies of the replicas. Pure.

The seal decides which bytes of a block are right. Without a seal the majority of the
replicas decides. A copy whose own records are damaged in a block has no vote on that
block, and neither has one whose queue offsets say that a record changed there, if
others have none such. Bytes above a fork are of another history, and have no vote.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from pystore.seals import BLOCK_BYTES
from pystore.spark.verify.check_store import StoreFindings
from pystore.spark.verify.forks import Fork
from pystore.spark.verify.task import SegmentCheck
from pystore.spark.verify.verdicts import Finding

__all__ = ["Copy", "Expected", "block_of", "make_copy", "marks_of", "right_marks"]


@dataclass(slots=True)
class Copy:
    """
    One store's copy of the segment.

    Attributes:
        found: the findings of the store.
        check: of this segment.
        own: findings of the store about this segment.
        fork: of the store, if it lies below the end of the segment.
        notes: on this segment.
        marks: digest of each block, by the offset where the digested bytes end.
        damaged: indexes of blocks that the copy's own records or its seal show bad.
        suspect: indexes of blocks in which a record may have changed, by its queue.
        wrong: offsets of the marks that differ from the right ones, ascending.
    """

    found: StoreFindings
    check: SegmentCheck
    own: list[Finding]
    fork: Fork | None = None
    notes: list[Finding] = field(default_factory=list)
    marks: dict[int, int] = field(default_factory=dict)
    damaged: set[int] = field(default_factory=set)
    suspect: set[int] = field(default_factory=set)
    wrong: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Expected:
    """
    The right digests of a segment, by the offsets of the marks.

    Attributes:
        marks: the right digests that are known.
        ties: offsets without a majority.
        sealed: offsets that a seal decides.
    """

    marks: dict[int, int] = field(default_factory=dict)
    ties: set[int] = field(default_factory=set)
    sealed: set[int] = field(default_factory=set)


def make_copy(found: StoreFindings, base: int, fork: Fork | None) -> Copy:
    """
    Returns a store's copy of a segment.

    Args:
        found: the findings of the store.
        base: of the segment.
        fork: of the store.
    """
    check, size = found.checks[base], found.plan.listing.segment_size
    own, notes = found.by_segment.get(base, []), found.notes.get(base, [])
    if fork is not None and fork.offset >= min(base + size, found.end):
        fork = None
    marks = marks_of(check)
    if found.torn_reason and found.plan.is_crashed:
        # What a crash left above the end differs in every replica.
        marks = {end: digest for end, digest in marks.items() if end <= found.end}
    if fork is not None:
        marks = {end: digest for end, digest in marks.items() if end <= fork.offset}
    damaged, suspect = _blocks_of(own, base, size), _blocks_of(notes, base, size)
    return Copy(found, check, own, fork, notes, marks, damaged, suspect)


def marks_of(check: SegmentCheck) -> dict[int, int]:
    """
    Returns the digest of each block, by the offset where the digested bytes end.
    """
    marks = {
        min(check.base + (index + 1) * BLOCK_BYTES, check.digest_end): digest
        for index, digest in check.digests.items()
    }
    return marks | check.partial


def _blocks_of(findings: Sequence[Finding], base: int, size: int) -> set[int]:
    """
    The blocks of a segment that findings name.
    """
    blocks: set[int] = set()
    for one in findings:
        if one.offset is not None:
            low = max(one.offset, base) - base
            high = min(one.offset + max(1, one.size), base + size) - base
            blocks.update(range(low // BLOCK_BYTES, (high - 1) // BLOCK_BYTES + 1))
    return blocks


def block_of(base: int, end: int) -> int:
    """
    The index of the block that holds the byte before *end*.
    """
    return (end - 1 - base) // BLOCK_BYTES


def right_marks(copies: Sequence[Copy], base: int) -> Expected:
    """
    Returns the right digests: those of the seal, else those of most copies.
    """
    expected = Expected()
    sealed = _sealed(copies)
    # Marks of one block are cumulative: who was wrong once has no vote behind.
    wrong: set[tuple[int, int]] = set()
    for end in sorted({end for copy in copies for end in copy.marks}):
        block = block_of(base, end)
        if end in sealed:
            expected.marks[end] = sealed[end]
            expected.sealed.add(end)
            continue
        able = [
            one
            for number, one in enumerate(copies)
            if end in one.marks
            and block not in one.damaged
            and (number, block) not in wrong
        ]
        votes = _votes(able, end, block)
        most = votes.most_common(2)
        if not most:
            continue
        if len(most) == 1 or most[0][1] * 2 > votes.total():
            expected.marks[end] = right = most[0][0]
            wrong.update(
                (number, block)
                for number, one in enumerate(copies)
                if one.marks.get(end, right) != right
            )
        else:
            expected.ties.add(end)
    return expected


def _votes(able: Sequence[Copy], end: int, block: int) -> Counter[int]:
    # A gap that every copy has is of the log, not of a copy.
    trusted = [one for one in able if block not in one.suspect]
    return Counter(one.marks[end] for one in trusted or able)


def _sealed(copies: Sequence[Copy]) -> dict[int, int]:
    """
    The digests of the seals, where these agree.
    """
    found: dict[int, int] = {}
    odd: set[int] = set()
    for copy in copies:
        seal = copy.check.seal
        if seal is None or seal.block_bytes != BLOCK_BYTES:
            continue
        for index, digest in enumerate(seal.block_digests):
            end = seal.block_range(index)[1]
            if copy.fork is not None and end > copy.fork.offset:
                break
            if found.setdefault(end, digest) != digest:
                odd.add(end)
    return {end: digest for end, digest in found.items() if end not in odd}
