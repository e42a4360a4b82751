"""
Compares the replicas of one log: which copy of a segment is wrong. Pure.

Histories that part are judged by their epochs (`pystore.spark.verify.forks`). Within
one history the seal or the majority decides (`pystore.spark.verify.votes`). Without a
majority every copy that differs gets a verdict, and an operator has to decide.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import xxhash

from pystore.seals import BLOCK_BYTES
from pystore.spark.verify.check_store import StoreFindings
from pystore.spark.verify.digests import blocks_of
from pystore.spark.verify.forks import Fork, find_forks
from pystore.spark.verify.verdicts import GOOD, NOTE, Finding, SegmentVerdict, Verdict
from pystore.spark.verify.votes import (
    Copy,
    Expected,
    block_of,
    make_copy,
    marks_of,
    right_marks,
)

__all__ = ["Difference", "check_replicas"]

_HOLE_MAX = 10_000
_NAMES = {"consumeQueue": "consumequeue", "epoch": "epochs"}
"""What a row is about, by the kind of its findings."""


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
    forks = _find_forks(stores) if is_comparable else {}
    bases = {str(one.plan.root): _bases(one) for one in stores}
    for base in sorted({base for own in bases.values() for base in own}):
        copies = {
            str(one.plan.root): make_copy(one, base, forks.get(str(one.plan.root)))
            for one in stores
            if _is_here(one, base)
        }
        expected = (
            right_marks(list(copies.values()), base) if is_comparable else Expected()
        )
        for one in stores:
            copy = copies.get(str(one.plan.root))
            if copy is None:
                if is_comparable or base in bases[str(one.plan.root)]:
                    absent = _absent(one, base, stores, forks)
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
    if is_comparable:
        _warn_of_last(verdicts, stores)
    verdicts += [v for one in stores for v in _store_rows(one)]
    _assert_told(verdicts, stores)
    return verdicts, differences


def _find_forks(stores: Sequence[StoreFindings]) -> dict[str, Fork]:
    """
    The forks that the epoch tables tell, and that bytes do not refute.

    Two histories differ in every later record. If bytes above a fork are equal, one of
    the tables is wrong, and nothing may be cut by it.
    """
    found = {str(one.plan.root): one for one in stores}
    forks = find_forks(one.plan.history for one in stores)
    for root, fork in list(forks.items()):
        mine, other = found[root], found[fork.other]
        if not _are_equal_above(mine, other, fork.offset):
            continue
        del forks[root]
        for one, peer in ((mine, other), (other, mine)):
            text = (
                f"its epochs and those of {peer.plan.root} part at offset "
                f"{fork.offset}, but the bytes above are equal: one of the two epoch "
                "files is wrong: an operator has to decide, before anything is cut"
            )
            one.of_store.append(Finding("epoch", None, text))
    return forks


def _are_equal_above(one: StoreFindings, other: StoreFindings, offset: int) -> bool:
    size = one.plan.listing.segment_size
    for base in one.checks.keys() & other.checks.keys():
        if base + size <= offset:
            continue
        theirs = marks_of(other.checks[base])
        for end, digest in marks_of(one.checks[base]).items():
            # The last block may be padding, which is equal in all logs.
            is_padding = end == base + size and block_of(base, end) > 0
            if end > offset and theirs.get(end) == digest and not is_padding:
                return True
    return False


def _warn_of_last(
    verdicts: Sequence[SegmentVerdict], stores: Sequence[StoreFindings]
) -> None:
    """
    Says of each segment that no replica has whole that its copies are all there is.
    """
    if len(stores) < 2:
        return
    whole = {one.segment for one in verdicts if one.verdict in GOOD}
    text = "no whole copy of this segment is known: keep every copy that is left"
    for one in verdicts:
        is_damage = one.verdict in (Verdict.CORRUPT, Verdict.ABSENT)
        if one.is_bad and is_damage and one.segment not in whole:
            one.evidence.append(text)


def _assert_told(
    verdicts: Sequence[SegmentVerdict], stores: Sequence[StoreFindings]
) -> None:
    """
    Findings found are findings reported.
    """
    bad = {(one.store, one.segment) for one in verdicts if one.is_bad}
    unknown = {
        (one.store, one.segment) for one in verdicts if one.verdict is Verdict.UNKNOWN
    }
    for one in stores:
        places = {base for base, own in one.by_segment.items() if own}
        rows = {(str(one.plan.root), base) for base in places}
        assert not rows - bad - unknown, f"findings without a verdict: {rows - bad}"


def _bases(one: StoreFindings) -> set[int]:
    """
    The segments that a store has, or should have by its own files.
    """
    size, bases = one.plan.listing.segment_size, one.plan.listing.bases
    if not bases:
        return set()
    top = max(one.end, one.expected_end)
    above = {base for base in bases if base >= top and _has_bytes(one, base)}
    above |= {*one.by_segment, *one.plan.listing.odd}
    # A hole of more segments than one can list has rows for its first ones.
    holes = (
        range(low, high, size)[:_HOLE_MAX]
        for low, high in pairwise((*(base for base in bases if base < top), top))
    )
    return {*chain.from_iterable(holes), *above}


def _has_bytes(one: StoreFindings, base: int) -> bool:
    check = one.checks.get(base)
    return check is not None and check.report is not None and not check.report.is_empty


def _is_here(one: StoreFindings, base: int) -> bool:
    return base in one.checks and (
        base < one.end or _has_bytes(one, base) or bool(one.by_segment.get(base))
    )


def _verdict(copy: Copy, base: int, expected: Expected, peers: int) -> SegmentVerdict:
    check, one = copy.check, copy.found
    copy.wrong = sorted(
        end
        for end, mark in copy.marks.items()
        if end in expected.ties or expected.marks.get(end, mark) != mark
    )
    bad = {block_of(base, end) for end in copy.wrong}
    report, known = check.report, _known_digests(copy, base)
    size = one.plan.listing.segment_size
    is_torn = bool(one.torn_reason) and base <= one.end < base + size
    verdict = SegmentVerdict(
        group=one.plan.group,
        store=str(one.plan.root),
        segment=base,
        verdict=Verdict.UNSEALED,
        length=min(size, max(0, one.end - base)),
        checked_bytes=_checked_bytes(
            copy, base, is_vouched=_is_vouched(copy, peers, expected)
        ),
        records=report.records if report else 0,
        uncovered_bytes=report.uncovered_bytes if report else 0,
        is_sampled=check.is_sampled,
        is_sealed=check.seal is not None and not copy.own,
        replicas=peers,
        digest=_fold(check.digests),
        seconds=check.seconds,
    )
    if check.error:
        verdict.verdict = Verdict.UNKNOWN
        verdict.evidence.append(check.error)
    elif copy.own:
        verdict.verdict, verdict.is_bad = Verdict.CORRUPT, True
        verdict.blocks = tuple(sorted(copy.damaged | bad))
        verdict.evidence += [f"{f.kind}: {f.text}" for f in copy.own]
    elif base >= one.end:
        verdict.verdict = Verdict.ORPHAN
        verdict.evidence.append(
            f"the log ends at {one.end}: opening the store removes this file"
        )
    elif copy.fork is not None:
        verdict.verdict, verdict.is_bad = Verdict.DIVERGENT, True
        verdict.first_difference = max(copy.fork.offset, base)
    elif bad:
        # A bad record without a crash is damage, not another history.
        verdict.verdict = Verdict.CORRUPT if is_torn else Verdict.DIVERGENT
        verdict.is_bad, verdict.blocks = True, tuple(sorted(bad))
    else:
        _praise(verdict, copy, peers, expected)
    # A block that was bad proves nothing to the next round.
    read = sorted(known.keys() - verdict.blocks)
    verdict.read_blocks = array("i", read)
    verdict.block_digests = array("q", (_signed(known[i]) for i in read))
    if copy.fork is not None:
        verdict.evidence.append(copy.fork.text)
    verdict.evidence += [NOTE + one.text for one in copy.notes]
    if is_torn:
        text = f"torn at {one.end}: {one.torn_reason}; opening the store cuts it"
        verdict.evidence.append(text)
    return verdict


def _is_vouched(copy: Copy, peers: int, expected: Expected) -> bool:
    """
    Whether a seal or a replica shows that the bytes are right.
    """
    is_compared = bool(copy.marks and (peers or expected.sealed))
    return copy.check.is_sealed_whole or is_compared


def _praise(
    verdict: SegmentVerdict, copy: Copy, peers: int, expected: Expected
) -> None:
    """
    Says what the check of a segment without a finding proved.
    """
    check = copy.check
    is_vouched = _is_vouched(copy, peers, expected)
    total = blocks_of(check.digest_end - check.base)
    if not check.is_sampled or (is_vouched and len(check.digests) >= total > 0):
        verdict.verdict = Verdict.OK if is_vouched else Verdict.UNSEALED
        return
    verdict.verdict = Verdict.SAMPLED
    by = "there is neither a seal nor a replica to compare them with"
    if expected.sealed:
        by = "they are as they were sealed"
    elif is_vouched:
        by = f"they are as in {peers} other stores"
    share = round(100 * len(check.digests) / total) if total else 0
    text = f"{len(check.digests)} of {total} blocks ({share} %) were read: {by}"
    if not is_vouched:
        records = check.report.records if check.report else 0
        text += f"; {records} records in them are whole"
    verdict.evidence.append(text)


def _checked_bytes(copy: Copy, base: int, *, is_vouched: bool) -> int:
    """
    The bytes that were read and checked: the records, or the blocks of a sample that
    were compared with a seal or a replica.
    """
    check = copy.check
    if not check.is_sampled or not is_vouched:
        return check.report.scanned_bytes if check.report else 0
    ends = (min(base + (i + 1) * BLOCK_BYTES, check.digest_end) for i in check.digests)
    return sum(end - base - block_of(base, end) * BLOCK_BYTES for end in ends)


def _known_digests(copy: Copy, base: int) -> dict[int, int]:
    """
    The digests that the next round may compare: no torn bytes are in them.
    """
    end = copy.found.end
    return {
        index: digest
        for index, digest in copy.check.digests.items()
        if min(base + (index + 1) * BLOCK_BYTES, copy.check.digest_end) <= end
    }


def _signed(digest: int) -> int:
    return digest - (1 << 64) if digest >> 63 else digest


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
    if verdict.verdict in GOOD:
        verdict.verdict = Verdict.UNKNOWN


def _difference(
    verdict: SegmentVerdict,
    copy: Copy,
    copies: Mapping[str, Copy],
    expected: Expected,
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
    bad = {block_of(base, end) for end in copy.wrong}
    return Difference(
        verdict=verdict,
        blocks=tuple(sorted({block_of(base, end) for end in shared})),
        end=shared[-1],
        reference=reference,
        agrees_behind=any(block_of(base, end) > max(bad) for end in copy.marks),
        is_tie=first in expected.ties,
    )


def _absent(
    one: StoreFindings,
    base: int,
    stores: Sequence[StoreFindings],
    forks: Mapping[str, Fork],
) -> SegmentVerdict | None:
    """
    The verdict on a segment that replicas have, or that this store should have.
    """
    bases = one.plan.listing.bases
    size = one.plan.listing.segment_size
    own = one.by_segment.get(base, [])
    verdict = SegmentVerdict(
        one.plan.group, str(one.plan.root), base, Verdict.ABSENT, length=size
    )
    if base in one.plan.listing.odd:
        verdict.verdict, verdict.is_bad = Verdict.CORRUPT, True
        found = one.plan.listing.odd[base]
        verdict.evidence.append(f"file: it has {found} bytes instead of {size}")
    elif base in bases:
        if not own:
            return None  # another round checks it
        verdict.verdict, verdict.is_bad = Verdict.CORRUPT, True
    elif base < one.expected_end and bases and base > bases[0]:
        verdict.is_bad = True
        has_replica = any(
            base in other.checks
            for other in stores
            if str(other.plan.root) not in forks
            or forks[str(other.plan.root)].offset >= base + size
        )
        text = "the file is missing: take it from a replica"
        verdict.evidence.append(text if has_replica else "the file is missing")
    elif own:
        verdict.is_bad = True
    elif bases and base > bases[0]:
        lag = max(other.end for other in stores) - one.end
        verdict.evidence.append(
            f"the log ends at {one.end}, {lag} bytes behind the longest replica"
        )
    else:
        begins = f"the log begins at {bases[0]}" if bases else "the log is empty"
        text = f"{begins}: the segment was deleted by retention, or lost"
        verdict.evidence.append(text)
    verdict.evidence += [f"{f.kind}: {f.text}" for f in own]
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
    by_place: dict[tuple[int | None, str], list[str]] = {}
    size = one.plan.listing.segment_size
    for finding in one.of_store:
        name, base = _NAMES.get(finding.kind, ""), None
        if name and finding.offset is not None and size:
            base = finding.offset // size * size
        text = f"{finding.kind}: {finding.text}"
        by_place.setdefault((base, name), []).append(text)
    rows += [
        SegmentVerdict(
            group, root, base, Verdict.CORRUPT, name, is_bad=True, evidence=evidence
        )
        for (base, name), evidence in by_place.items()
    ]
    return rows
