"""
The verdicts on the copies of one segment, from the answers of their brokers. Pure.

Which copy is right is decided as by the workers (`compared`): its own seal, then the
majority of the replicas, and only if each of them is known.

Source: AR-R6, AR-R8; docs/spark.md, *Running replicas*.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pystore.autorecovery.copy_look import CopyLook, CopyState, checked
from pystore.autorecovery.repair_verdict import compared
from pystore.segments.order import OrderOutcome
from pystore.spark.peers.check import CopyCheck
from pystore.spark.peers.plan import PlannedSet
from pystore.spark.verify.verdicts import SegmentVerdict, Verdict

__all__ = ["replica_verdicts", "segment_verdicts"]

_OWN_DAMAGE = {
    CopyState.DAMAGED: Verdict.CORRUPT,
    CopyState.DIVERGENT: Verdict.DIVERGENT,
    CopyState.OUTVOTED: Verdict.DIVERGENT,
}
_NOT_THERE = (CopyState.LACKING, CopyState.OUTSIDE, CopyState.BEHIND)


def replica_verdicts(one: PlannedSet) -> Iterator[SegmentVerdict]:
    """
    Yields a row for each replica of a set that gave no definite answer.
    """
    for number, look in one.looks.items():
        if number not in one.stats:
            yield SegmentVerdict(
                one.text,
                one.key(number).text,
                None,
                Verdict.UNKNOWN,
                evidence=[look.text],
            )


def segment_verdicts(
    one: PlannedSet, base: int, checks: Mapping[int, CopyCheck], *, is_last: bool
) -> list[SegmentVerdict] | None:
    """
    Returns the verdicts on the copies of a segment.

    Args:
        one: its set.
        base: its first offset.
        checks: of the copies whose blocks were read, by broker id.
        is_last: it cannot be read again.

    Returns:
        One for each replica that answered; ``None``: all blocks of the whole copies
        have to be read, so that they can be compared.
    """
    looks = one.looks_at(base)
    for number, check in checks.items():
        look = checked(looks[number], check.progress)
        if check.direct is not None and check.direct.is_lie:
            # What it tells is not what it has: it is no voter.
            look = look.unknown("it tells other bytes than it serves")
        looks[number] = look
    found = compared(looks, ())
    if found is None and not is_last:
        return None
    if found is None:
        found = {
            it: look.unknown("it tells no digest to compare")
            if look.state is CopyState.GOOD and not look.digest
            else look
            for it, look in looks.items()
        }
        found = compared(found, ()) or found
    equal = Counter(
        look.digest for look in found.values() if look.state is CopyState.GOOD
    )
    return [
        _verdict(one, base, found[number], checks.get(number), equal)
        for number in one.stats
    ]


def _verdict(
    one: PlannedSet,
    base: int,
    look: CopyLook,
    check: CopyCheck | None,
    equal: Mapping[str, int],
) -> SegmentVerdict:
    number = look.replica.broker_id
    row = SegmentVerdict(
        one.text,
        one.key(number).text,
        base,
        Verdict.UNKNOWN,
        length=one.stats[number].segment_size,
        replica=one.at_plan(number),
        evidence=[look.why] if look.why else [],
    )
    if look.state in _NOT_THERE:
        row.verdict = Verdict.ABSENT
    elif look.state in _OWN_DAMAGE:
        row.verdict, row.is_bad = _OWN_DAMAGE[look.state], True
        if look.state is CopyState.DAMAGED and not _has_file(check):
            row.verdict = Verdict.ABSENT
        elif look.state is CopyState.DAMAGED:
            row.blocks = look.bad_blocks
    if check is None:
        return row
    row.seconds = check.seconds
    if check.progress.outcome is OrderOutcome.GONE:
        row.verdict = Verdict.ABSENT
        row.evidence = [f"it went while the job ran: {check.progress.detail}"]
    if look.state is CopyState.GOOD:
        alike = equal[look.digest] - 1 if look.digest else 0
        row = replace(row, replicas=alike, verdict=_good(look, check, alike))
    return _with_bytes(row, look, check)


def _has_file(check: CopyCheck | None) -> bool:
    return check is not None and bool(check.progress.bad_blocks)


def _good(look: CopyLook, check: CopyCheck, alike: int) -> Verdict:
    if check.task.blocks:
        return Verdict.SAMPLED
    return Verdict.OK if look.is_sealed or alike else Verdict.UNSEALED


def _with_bytes(
    row: SegmentVerdict, look: CopyLook, check: CopyCheck
) -> SegmentVerdict:
    """
    A verdict with what was read, and what the bytes are that were read directly.
    """
    is_read = check.progress.outcome is OrderOutcome.WHOLE or _has_file(check)
    blocks = check.task.blocks or tuple(range(look.blocks))
    row.is_sampled = bool(check.task.blocks)
    if is_read:
        row.checked_bytes = check.task.size_bytes
        row.read_blocks = tuple(i for i in blocks if i not in look.bad_blocks)
        row.digest, row.is_sealed = check.progress.digest, check.progress.is_sealed
    if row.is_sampled and is_read:
        row.evidence.append(f"{len(blocks)} of {look.blocks} blocks were read")
    direct = check.direct
    if direct is None:
        return row
    if direct.is_lie:
        row.verdict, row.is_bad = Verdict.CORRUPT, True
        row.blocks, row.read_blocks = direct.differing, ()
        row.evidence = [
            f"read directly: {direct.problem or _blocks_text(direct.differing)}; its "
            "broker says that the copy is whole: look at that host"
        ]
    elif direct.problem:
        row.evidence.append(direct.problem)
    else:
        row.evidence.append(f"{len(direct.digests)} blocks were read directly, too")
        row.read_blocks = tuple(direct.digests)
        row.block_digests = array("q", map(_signed, direct.digests.values()))
    return row


def _blocks_text(blocks: tuple[int, ...]) -> str:
    named = ", ".join(map(str, blocks))
    return f"the bytes of blocks {named} have other digests than it tells"


def _signed(digest: int) -> int:
    return digest - (1 << 64) if digest >> 63 else digest
