"""
Replicas of one log against each other: which copy of a segment is wrong. Pure.

What a seal says of a block counts; without one, what most replicas have. A replica
whose own records are damaged in a block has no say about it. Where nobody can tell,
every copy that differs is named, and a person decides.
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
    A copy of a segment that is not what it should be; where exactly, is asked next.

    Attributes:
        verdict: of the copy, DIVERGENT until it is known better.
        blocks: that differ, ascending.
        end: up to where the copies are compared.
        reference: root of a store that has these blocks right, or only otherwise;
            empty: a seal alone says that they are wrong.
        agrees_behind: whether a later block is right again.
        is_tie: whether nobody can tell which copy is right.
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
    One store's copy of the segment in question.

    Attributes:
        marks: digests by the offset at which the digested bytes of a block end.
        damaged: blocks that its own records or its seal call bad.
        wrong: offsets of marks that are not what they should be, ascending.
    """

    found: StoreFindings
    check: SegmentCheck
    own: list[Finding]
    marks: dict[int, int] = field(default_factory=dict)
    damaged: set[int] = field(default_factory=set)
    wrong: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Truth:
    """
    What the bytes of a segment should be, by the offsets of the marks.

    Attributes:
        marks: the right digests, as far as they can be told.
        ties: offsets of which nobody can tell.
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
        truth = _truth(list(copies.values()), base) if is_comparable else _Truth()
        for one in stores:
            copy = copies.get(str(one.plan.root))
            if copy is None:
                absent = _absent(one, base, stores) if is_comparable else None
                verdicts += [absent] if absent else []
                continue
            peers = sum(
                bool(other.marks) for other in copies.values() if other is not copy
            )
            verdict = _judge(copy, base, truth, peers)
            verdicts.append(verdict)
            if not is_comparable:
                _call_incomparable(verdict, sizes)
            elif copy.wrong:
                differences.append(_difference(verdict, copy, copies, truth))
    return verdicts + [v for one in stores for v in _store_rows(one)], differences


def _bases(one: StoreFindings) -> list[int]:
    """
    The segments that a store has, or says that it should have.
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


def _own(one: StoreFindings, base: int) -> list[Finding]:
    return one.by_segment.get(base, [])


def _blocks_of(findings: Sequence[Finding], base: int) -> set[int]:
    """
    The blocks that findings name; a queue offset says nothing about bytes.
    """
    blocks: set[int] = set()
    for one in findings:
        if one.offset is not None and one.kind != "queueOffset":
            first = (one.offset - base) // BLOCK_BYTES
            last = (one.offset - base + max(1, one.size) - 1) // BLOCK_BYTES
            blocks.update(range(first, last + 1))
    return blocks


def _copy(one: StoreFindings, base: int) -> _Copy:
    check, own = one.checks[base], _own(one, base)
    marks = {
        min(base + (index + 1) * BLOCK_BYTES, check.digest_end): digest
        for index, digest in check.digests.items()
    }
    marks |= check.partial
    if one.torn_reason and one.plan.is_crashed:
        # What a crash left behind the end is nothing that anybody could compare.
        marks = {end: digest for end, digest in marks.items() if end <= one.end}
    return _Copy(one, check, own, marks, _blocks_of(own, base))


def _block(base: int, end: int) -> int:
    """
    The block that ends there, or reaches to there.
    """
    return (end - 1 - base) // BLOCK_BYTES


def _truth(copies: Sequence[_Copy], base: int) -> _Truth:
    """
    The right digests, by a seal, else by what most copies have.
    """
    truth = _Truth()
    sealed = _sealed(copies)
    for end in sorted({end for copy in copies for end in copy.marks}):
        if end in sealed:
            truth.marks[end] = sealed[end]
            truth.sealed.add(end)
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
            truth.marks[end] = most[0][0]
        else:
            truth.ties.add(end)
    return truth


def _sealed(copies: Sequence[_Copy]) -> dict[int, int]:
    """
    What the seal says, where all seals of the replicas say the same.
    """
    found = {one.check.seal.digest: one.check.seal for one in copies if one.check.seal}
    if len(found) != 1:
        return {}
    (seal,) = found.values()
    if seal.block_bytes != BLOCK_BYTES:
        return {}
    return {seal.block_range(i)[1]: d for i, d in enumerate(seal.block_digests)}


def _judge(copy: _Copy, base: int, truth: _Truth, peers: int) -> SegmentVerdict:
    check, one = copy.check, copy.found
    copy.wrong = sorted(
        end
        for end, mark in copy.marks.items()
        if end in truth.ties or truth.marks.get(end, mark) != mark
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
        verdict.evidence.append(f"the log ends at {one.end}: opening removes it")
    elif copy.own:
        verdict.verdict, verdict.is_bad = Verdict.CORRUPT, True
        verdict.blocks = tuple(sorted(copy.damaged | bad))
        verdict.evidence += [f"{f.kind}: {f.text}" for f in copy.own]
    elif bad:
        # A record that is bad in itself, though nobody crashed, is no other history.
        verdict.verdict = Verdict.CORRUPT if is_torn else Verdict.DIVERGENT
        verdict.is_bad, verdict.blocks = True, tuple(sorted(bad))
    elif check.is_sealed_whole or (copy.marks and (peers or truth.sealed)):
        verdict.verdict = Verdict.OK
    if is_torn:
        text = f"torn at {one.end}: {one.torn_reason}; opening cuts it"
        verdict.evidence.append(text)
    return verdict


def _fold(digests: Mapping[int, int]) -> str:
    whole = xxhash.xxh3_128()
    for index in sorted(digests):
        whole.update(index.to_bytes(4) + digests[index].to_bytes(8))
    return whole.hexdigest() if digests else ""


def _call_incomparable(verdict: SegmentVerdict, sizes: set[int]) -> None:
    both = " and ".join(map(str, sorted(sizes)))
    text = (
        f"replicas have segments of {both} bytes: their logs cannot be equal; verify "
        "each by itself"
    )
    verdict.evidence.append(text)
    if verdict.verdict in (Verdict.OK, Verdict.UNSEALED):
        verdict.verdict = Verdict.UNKNOWN


def _difference(
    verdict: SegmentVerdict,
    copy: _Copy,
    copies: Mapping[str, _Copy],
    truth: _Truth,
) -> Difference:
    base, first = verdict.segment, copy.wrong[0]
    assert base is not None
    right, mine = truth.marks.get(first), copy.marks[first]
    # Of those that have it right, or at least otherwise, the one that has most.
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
        is_tie=first in truth.ties,
    )


def _absent(
    one: StoreFindings, base: int, stores: Sequence[StoreFindings]
) -> SegmentVerdict | None:
    """
    What to say of a segment that replicas have, or that this store should have.
    """
    bases = one.plan.listing.bases
    size = one.plan.listing.segment_size
    verdict = SegmentVerdict(
        one.plan.group, str(one.plan.root), base, Verdict.ABSENT, length=size
    )
    if base in bases and base not in one.plan.listing.odd:
        return None  # another round's work
    if base in one.plan.listing.odd:
        verdict.verdict, verdict.is_bad = Verdict.CORRUPT, True
        found = one.plan.listing.odd[base]
        verdict.evidence.append(f"file: it has {found} bytes instead of {size}")
    elif base < one.expected_end and bases and base > bases[0]:
        verdict.is_bad = True
        verdict.evidence.append("the file is missing: take it from a replica")
    elif bases and base > bases[0]:
        lag = max(other.end for other in stores) - one.end
        verdict.evidence.append(f"the log ends at {one.end}, {lag} bytes behind")
    else:
        begins = f"the log begins at {bases[0]}" if bases else "the log is empty"
        verdict.evidence.append(f"{begins}: deleted by retention, or lost")
    return verdict


def _store_rows(one: StoreFindings) -> list[SegmentVerdict]:
    """
    What a store has beside its segments: a row for all, and one for each orphan.
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
