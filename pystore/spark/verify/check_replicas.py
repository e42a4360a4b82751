"""
Compares the replicas of one log: which copy of a segment is wrong. Pure.

The seal decides which bytes of a block are right. Without a seal the majority of the
replicas decides. A replica whose own records are damaged in a block has no vote on
that block. Without a majority every copy that differs gets a verdict, and an operator
has to decide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import xxhash

from pystore.seals import BLOCK_BYTES
from pystore.spark.verify.check_store import StoreFindings
from pystore.spark.verify.task import SegmentCheck
from pystore.spark.verify.verdicts import Finding, SegmentVerdict, Verdict

__all__ = ["Difference", "check_replicas"]


@dataclass(slots=True)
class Difference:
    """
    A copy of a segment that is wrong. `complete_verdicts` finds out where.

    Attributes:
        verdict: of the copy; DIVERGENT until the cause is known.
        blocks: indexes of the blocks that differ, ascending.
        end: offset up to which the copies are compared.
        reference: root of a store whose copy of these blocks is right, or at least
            different; empty: only a seal shows that this copy is wrong.
        agrees_behind: whether a later block is right again.
        is_tie: whether neither a seal nor a majority decides which copy is right.
    """

    verdict: SegmentVerdict
    blocks: tuple[int, ...]
    end: int
    reference: str
    agrees_behind: bool
    is_tie: bool


@dataclass(slots=True)
class _Copy:
    """
    One store's copy of the segment.

    Attributes:
        found: the findings of the store.
        check: of this segment.
        own: findings of the store about this segment.
        marks: digest of each block, by the offset where the digested bytes end.
        damaged: indexes of blocks that the copy's own records or its seal show bad.
        wrong: offsets of the marks that differ from the right ones, ascending.
    """

    found: StoreFindings
    check: SegmentCheck
    own: list[Finding]
    marks: dict[int, int] = field(default_factory=dict)
    damaged: set[int] = field(default_factory=set)
    wrong: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Expected:
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


def check_replicas(
    stores: Sequence[StoreFindings],
) -> tuple[list[SegmentVerdict], list[Difference]]:
    """
    Returns a verdict for each segment of each store, and the copies that differ.

    Args:
        stores: replicas of one log, or a single one.
    """
    verdicts: list[SegmentVerdict] = []
    differences: list[Difference] = []
    sizes = {one.plan.listing.segment_size for one in stores} - {0}
    is_comparable = len(sizes) <= 1
    bases = sorted({base for one in stores for base in _bases(one)})
    for base in bases:
        copies = {
            str(one.plan.root): _copy(one, base)
            for one in stores
            if _is_here(one, base)
        }
        expected = (
            _expected(list(copies.values()), base) if is_comparable else _Expected()
        )
        for one in stores:
            copy = copies.get(str(one.plan.root))
            if copy is None:
                absent = _absent(one, base, stores) if is_comparable else None
                verdicts += [absent] if absent else []
                continue
            peers = sum(
                bool(other.marks) for other in copies.values() if other is not copy
            )
            verdict = _verdict(copy, base, expected, peers)
            verdicts.append(verdict)
            if not is_comparable:
                _mark_incomparable(verdict, sizes)
            elif copy.wrong:
                differences.append(_difference(verdict, copy, copies, expected))
    return verdicts + [v for one in stores for v in _store_rows(one)], differences


def _bases(one: StoreFindings) -> list[int]:
    """
    The segments that a store has, or should have by its own files.
    """
    size, bases = one.plan.listing.segment_size, one.plan.listing.bases
    if not bases:
        return []
    top = max(one.end, one.expected_end)
    above = [base for base in bases if base >= top and _has_bytes(one, base)]
    return [*range(bases[0], top, size), *above]


def _has_bytes(one: StoreFindings, base: int) -> bool:
    check = one.checks.get(base)
    return check is not None and check.report is not None and not check.report.is_empty


def _is_here(one: StoreFindings, base: int) -> bool:
    return base in one.checks and (base < one.end or _has_bytes(one, base))


def _own_findings(one: StoreFindings, base: int) -> list[Finding]:
    return one.by_segment.get(base, [])


def _blocks_of(findings: Sequence[Finding], base: int) -> set[int]:
    """
    The blocks that findings name. A wrong queue offset does not make bytes bad.
    """
    blocks: set[int] = set()
    for one in findings:
        if one.offset is not None and one.kind != "queueOffset":
            first = (one.offset - base) // BLOCK_BYTES
            last = (one.offset - base + max(1, one.size) - 1) // BLOCK_BYTES
            blocks.update(range(first, last + 1))
    return blocks


def _copy(one: StoreFindings, base: int) -> _Copy:
    check, own = one.checks[base], _own_findings(one, base)
    marks = {
        min(base + (index + 1) * BLOCK_BYTES, check.digest_end): digest
        for index, digest in check.digests.items()
    }
    marks |= check.partial
    if one.torn_reason and one.plan.is_crashed:
        # What a crash left above the end differs in every replica.
        marks = {end: digest for end, digest in marks.items() if end <= one.end}
    return _Copy(one, check, own, marks, _blocks_of(own, base))


def _block(base: int, end: int) -> int:
    """
    The index of the block that holds the byte before *end*.
    """
    return (end - 1 - base) // BLOCK_BYTES


def _expected(copies: Sequence[_Copy], base: int) -> _Expected:
    """
    The right digests: those of the seal, else those of most copies.
    """
    expected = _Expected()
    sealed = _sealed(copies)
    for end in sorted({end for copy in copies for end in copy.marks}):
        if end in sealed:
            expected.marks[end] = sealed[end]
            expected.sealed.add(end)
            continue
        block = _block(base, end)
        votes = Counter(
            copy.marks[end]
            for copy in copies
            if end in copy.marks and block not in copy.damaged
        )
        most = votes.most_common(2)
        if not most:
            continue
        if len(most) == 1 or most[0][1] * 2 > votes.total():
            expected.marks[end] = most[0][0]
        else:
            expected.ties.add(end)
    return expected


def _sealed(copies: Sequence[_Copy]) -> dict[int, int]:
    """
    The digests of the seal, if all seals of the replicas are equal.
    """
    found = {one.check.seal.digest: one.check.seal for one in copies if one.check.seal}
    if len(found) != 1:
        return {}
    (seal,) = found.values()
    if seal.block_bytes != BLOCK_BYTES:
        return {}
    return {seal.block_range(i)[1]: d for i, d in enumerate(seal.block_digests)}


def _verdict(copy: _Copy, base: int, expected: _Expected, peers: int) -> SegmentVerdict:
    check, one = copy.check, copy.found
    copy.wrong = sorted(
        end
        for end, mark in copy.marks.items()
        if end in expected.ties or expected.marks.get(end, mark) != mark
    )
    bad = {_block(base, end) for end in copy.wrong}
    report = check.report
    size = one.plan.listing.segment_size
    is_torn = bool(one.torn_reason) and base <= one.end < base + size
    verdict = SegmentVerdict(
        group=one.plan.group,
        store=str(one.plan.root),
        segment=base,
        verdict=Verdict.UNSEALED,
        length=min(size, max(0, one.end - base)),
        checked_bytes=report.scanned_bytes if report else 0,
        records=report.records if report else 0,
        is_sealed=check.seal is not None and not copy.own,
        replicas=peers,
        digest=_fold(check.digests),
        seconds=check.seconds,
    )
    if check.error:
        verdict.verdict = Verdict.UNKNOWN
        verdict.evidence.append(check.error)
    elif base >= one.end:
        verdict.verdict = Verdict.ORPHAN
        verdict.evidence.append(
            f"the log ends at {one.end}: opening the store removes this file"
        )
    elif copy.own:
        verdict.verdict, verdict.is_bad = Verdict.CORRUPT, True
        verdict.blocks = tuple(sorted(copy.damaged | bad))
        verdict.evidence += [f"{f.kind}: {f.text}" for f in copy.own]
    elif bad:
        # A bad record without a crash is damage, not another history.
        verdict.verdict = Verdict.CORRUPT if is_torn else Verdict.DIVERGENT
        verdict.is_bad, verdict.blocks = True, tuple(sorted(bad))
    elif check.is_sealed_whole or (copy.marks and (peers or expected.sealed)):
        verdict.verdict = Verdict.OK
    if is_torn:
        text = f"torn at {one.end}: {one.torn_reason}; opening the store cuts it"
        verdict.evidence.append(text)
    return verdict


def _fold(digests: Mapping[int, int]) -> str:
    whole = xxhash.xxh3_128()
    for index in sorted(digests):
        whole.update(index.to_bytes(4) + digests[index].to_bytes(8))
    return whole.hexdigest() if digests else ""


def _mark_incomparable(verdict: SegmentVerdict, sizes: set[int]) -> None:
    both = " and ".join(map(str, sorted(sizes)))
    text = (
        f"the replicas have segments of {both} bytes, so their logs cannot be equal: "
        "verify each store by itself"
    )
    verdict.evidence.append(text)
    if verdict.verdict in (Verdict.OK, Verdict.UNSEALED):
        verdict.verdict = Verdict.UNKNOWN


def _difference(
    verdict: SegmentVerdict,
    copy: _Copy,
    copies: Mapping[str, _Copy],
    expected: _Expected,
) -> Difference:
    base, first = verdict.segment, copy.wrong[0]
    assert base is not None
    right, mine = expected.marks.get(first), copy.marks[first]
    # Of the copies that are right, or at least different, the one with most blocks.
    able = {
        name: other.marks
        for name, other in copies.items()
        if first in other.marks
        and other.marks[first] != mine
        and right in (None, other.marks[first])
    }
    reference = max(able, key=lambda name: len(able[name]), default="")
    shared = [end for end in copy.wrong if end in able.get(reference, copy.marks)]
    bad = {_block(base, end) for end in copy.wrong}
    return Difference(
        verdict=verdict,
        blocks=tuple(sorted({_block(base, end) for end in shared})),
        end=shared[-1],
        reference=reference,
        agrees_behind=any(_block(base, end) > max(bad) for end in copy.marks),
        is_tie=first in expected.ties,
    )


def _absent(
    one: StoreFindings, base: int, stores: Sequence[StoreFindings]
) -> SegmentVerdict | None:
    """
    The verdict on a segment that replicas have, or that this store should have.
    """
    bases = one.plan.listing.bases
    size = one.plan.listing.segment_size
    verdict = SegmentVerdict(
        one.plan.group, str(one.plan.root), base, Verdict.ABSENT, length=size
    )
    if base in bases and base not in one.plan.listing.odd:
        return None  # another round checks it
    if base in one.plan.listing.odd:
        verdict.verdict, verdict.is_bad = Verdict.CORRUPT, True
        found = one.plan.listing.odd[base]
        verdict.evidence.append(f"file: it has {found} bytes instead of {size}")
    elif base < one.expected_end and bases and base > bases[0]:
        verdict.is_bad = True
        verdict.evidence.append("the file is missing: take it from a replica")
    elif bases and base > bases[0]:
        lag = max(other.end for other in stores) - one.end
        verdict.evidence.append(
            f"the log ends at {one.end}, {lag} bytes behind the longest replica"
        )
    else:
        begins = f"the log begins at {bases[0]}" if bases else "the log is empty"
        text = f"{begins}: the segment was deleted by retention, or lost"
        verdict.evidence.append(text)
    return verdict


def _store_rows(one: StoreFindings) -> list[SegmentVerdict]:
    """
    The rows that are not about a segment: one for the store, one for each orphan.
    """
    root, group = str(one.plan.root), one.plan.group
    rows = [
        SegmentVerdict(
            group,
            root,
            None,
            Verdict.ORPHAN,
            name=name,
            is_bad=True,
            evidence=[text],
        )
        for name, text in one.plan.listing.orphans
    ]
    if one.of_store:
        evidence = [f"{finding.kind}: {finding.text}" for finding in one.of_store]
        rows.append(
            SegmentVerdict(
                group, root, None, Verdict.CORRUPT, is_bad=True, evidence=evidence
            )
        )
    return rows
