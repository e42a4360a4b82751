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
from pystore.spark.verify.store_judge import StoreFindings
from pystore.spark.verify.task import SegmentCheck
from pystore.spark.verify.verdicts import Finding, SegmentVerdict, Verdict

__all__ = ["Difference", "judge_group"]


@dataclass(slots=True)
class Difference:
    """
    A copy of a segment that is not what it should be; where exactly, is asked next.

    Attributes:
        verdict: of the copy, DIVERGENT until it is known better.
        blocks: that differ, ascending.
        end: up to where the copies are compared.
        reference: root of a store that has these blocks right, or only otherwise.
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
    """

    found: StoreFindings
    check: SegmentCheck
    own: list[Finding]
    bad: set[int] = field(default_factory=set)


def judge_group(
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
            str(one.plan.root): _Copy(one, one.checks[base], _own(one, base))
            for one in stores
            if _is_here(one, base)
        }
        truth: dict[int, int] = {}
        ties: set[int] = set()
        if is_comparable:
            truth, ties = _truth(list(copies.values()), base)
        for one in stores:
            copy = copies.get(str(one.plan.root))
            if copy is None:
                absent = _absent(one, base, stores) if is_comparable else None
                verdicts += [absent] if absent else []
                continue
            verdict = _judge(copy, base, truth, ties, len(copies) - 1)
            verdicts.append(verdict)
            if not is_comparable:
                _call_incomparable(verdict, sizes)
            elif copy.bad:
                differences.append(_difference(verdict, copy, copies, truth, ties))
    return verdicts + [v for one in stores for v in _beside(one)], differences


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


def _truth(copies: Sequence[_Copy], base: int) -> tuple[dict[int, int], set[int]]:
    """
    The right digest of each block, as far as it can be told, and the blocks of which
    it cannot.
    """
    truth: dict[int, int] = {}
    ties: set[int] = set()
    sealed = _sealed(copies)
    damaged = [_blocks_of(copy.own, base) for copy in copies]
    indexes = {index for copy in copies for index in copy.check.digests}
    for index in sorted(indexes):
        if index in sealed:
            truth[index] = sealed[index]
            continue
        votes = Counter(
            copy.check.digests[index]
            for copy, bad in zip(copies, damaged, strict=True)
            if index in copy.check.digests and index not in bad
        )
        most = votes.most_common(2)
        if not most:
            continue
        if len(most) == 1 or most[0][1] * 2 > votes.total():
            truth[index] = most[0][0]
        else:
            ties.add(index)
    return truth, ties


def _sealed(copies: Sequence[_Copy]) -> dict[int, int]:
    """
    What the seal says, where all seals of the replicas say the same.
    """
    seals = {
        copy.check.seal.digest: copy.check.seal for copy in copies if copy.check.seal
    }
    if len(seals) != 1:
        return {}
    (seal,) = seals.values()
    return (
        dict(enumerate(seal.block_digests)) if seal.block_bytes == BLOCK_BYTES else {}
    )


def _judge(
    copy: _Copy, base: int, truth: Mapping[int, int], ties: set[int], others: int
) -> SegmentVerdict:
    check, one = copy.check, copy.found
    digests = check.digests
    copy.bad = {i for i, d in digests.items() if i in ties or truth.get(i, d) != d}
    report = check.report
    verdict = SegmentVerdict(
        group=one.plan.group,
        store=str(one.plan.root),
        segment=base,
        verdict=Verdict.UNSEALED,
        length=min(one.plan.listing.segment_size, max(0, one.end - base)),
        checked_bytes=report.scanned_bytes if report else 0,
        records=report.records if report else 0,
        is_sealed=check.seal is not None and not copy.own,
        replicas=others,
        digest=_fold(digests),
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
        verdict.blocks = tuple(sorted(_blocks_of(copy.own, base) | copy.bad))
        verdict.evidence += [f"{f.kind}: {f.text}" for f in copy.own]
    elif copy.bad:
        verdict.verdict, verdict.is_bad = Verdict.DIVERGENT, True
        verdict.blocks = tuple(sorted(copy.bad))
    elif check.is_sealed_whole or (digests and (others or _is_sealed(copy, truth))):
        verdict.verdict = Verdict.OK
    if one.torn_reason and base <= one.end < base + one.plan.listing.segment_size:
        text = f"torn at {one.end}: {one.torn_reason}; opening cuts it"
        verdict.evidence.append(text)
    return verdict


def _is_sealed(copy: _Copy, truth: Mapping[int, int]) -> bool:
    return copy.check.seal is not None and bool(truth)


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
    truth: Mapping[int, int],
    ties: set[int],
) -> Difference:
    first, last = min(copy.bad), max(copy.bad)
    digests = copy.check.digests
    reference = next(
        (
            name
            for name, other in copies.items()
            if other is not copy
            and other.check.digests.get(first, digests[first])
            in ([truth[first]] if first in truth else _unlike(other, digests, first))
        ),
        "",
    )
    return Difference(
        verdict=verdict,
        blocks=tuple(sorted(copy.bad)),
        end=copy.check.digest_end,
        reference=reference,
        agrees_behind=any(index > last for index in digests),
        is_tie=first in ties,
    )


def _unlike(other: _Copy, digests: Mapping[int, int], index: int) -> list[int]:
    found = other.check.digests.get(index, digests[index])
    return [found] if found != digests[index] else []


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


def _beside(one: StoreFindings) -> list[SegmentVerdict]:
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
            evidence=[f"{text}: move it away"],
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
