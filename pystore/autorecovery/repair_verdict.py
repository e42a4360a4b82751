"""
What a worker decides about a segment, of which it has looked at every copy. Pure.

A definite answer is needed for every change: what is unknown, dead, not settled or of
RocketMQ is neither source nor target nor voter, and never counts as damage.

Source: AR-R6, AR-R8, AR-R9, AR-R11, AR-R18; BK-A64, BK-A69, BK-A75;
docs/autorecovery.md, *The worker*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from pystore.autorecovery.copy_look import CopyLook, CopyState
from pystore.autorecovery.mark import Reason, SegmentMark
from pystore.autorecovery.settings import RecoverySettings

__all__ = ["RepairVerdict", "VerdictKind", "compared", "next_repair", "verdict"]

_Looks = Mapping[int, CopyLook]

_MEMBERSHIP = (Reason.DRAIN, Reason.MISPLACED)
_TURN_MS = 5_000
"""How long a pulled segment rests that waits for the one above it."""


class VerdictKind(Enum):
    """
    How a claim ends.
    """

    DONE = "done"
    REST = "rest"
    """Not a failed try: something else has to happen first."""
    BACK_OFF = "back off"
    BURY = "bury"
    ABANDON = "abandon"
    """The claim had ended; another worker may have the segment."""


@dataclass(frozen=True, slots=True)
class RepairVerdict:
    """
    The end of a claim.

    Attributes:
        kind: of the end.
        why: one line.
        for_ms: of a rest.
        is_without_copy: every copy answered, and none has the bytes that are needed.
    """

    kind: VerdictKind
    why: str
    for_ms: int = 0
    is_without_copy: bool = False


def compared(looks: _Looks, named: Collection[int]) -> dict[int, CopyLook] | None:
    """
    Returns the looks, with whole copies that differ told apart.

    The majority decides if two or more copies are equal, one differs, and no seal
    speaks for that one alone; and only if every voter is known. Otherwise each of them
    is `CopyState.DIVERGENT`, and a person decides.

    Args:
        looks: of all copies.
        named: brokers of which the mark says that their copy is divergent.

    Returns:
        The looks; ``None``: whole copies have to be read as a whole first.
    """
    voters = {one: it for one, it in looks.items() if it.state is CopyState.GOOD}
    told = {it.digest for it in voters.values() if it.digest}
    is_doubted = len(told) > 1 or any(one in voters for one in named)
    if not is_doubted or len(voters) < 2:
        return dict(looks)
    if not all(it.digest for it in voters.values()):
        return None
    if len(told) == 1:
        return dict(looks)
    counts = Counter(it.digest for it in voters.values())
    (most, size), *others = counts.most_common()
    is_known = not any(it.state is CopyState.UNKNOWN for it in looks.values())
    is_majority = is_known and size > 1 and [count for _, count in others] == [1]
    sealed = {it.digest for it in voters.values() if it.is_sealed}
    if is_majority and (most in sealed or not sealed):
        against = f"{size} equal copies are against it"
        return {
            one: replace(it, state=CopyState.OUTVOTED, why=against)
            if one in voters and it.digest != most
            else it
            for one, it in looks.items()
        }
    return {
        one: replace(it, state=CopyState.DIVERGENT, why=f"its digest is {it.digest}")
        if one in voters
        else it
        for one, it in looks.items()
    }


def next_repair(
    looks: _Looks, mark: SegmentMark
) -> tuple[CopyLook, tuple[CopyLook, ...]] | None:
    """
    Returns the copy to be repaired next and its sources, the preferred one first;
    ``None``: there is none.

    Whole copies come before damaged ones, which give the blocks that they have; slaves
    before the master, which has writers; those of a store that can be opened before
    those of one that cannot. A replica that fills its history gets only
    what the Auditor offers: it can put in but the segment below its first one.
    """
    if any(it.state is CopyState.DIVERGENT for it in looks.values()):
        return None
    sources = sorted(
        (it for it in looks.values() if it.is_source),
        key=_taken_first,
    )
    whole = [it for it in sources if it.state is CopyState.GOOD]
    for look in sorted(looks.values(), key=_repaired_first):
        if look.is_tried:
            continue
        others = [it for it in sources if it is not look]
        if look.state is CopyState.DAMAGED and others:
            return look, tuple(others)
        is_wanted = look.state is CopyState.OUTVOTED or (
            look.state is CopyState.LACKING and look.replica.broker_id in mark.missing
        )
        if is_wanted and whole:
            return look, tuple(whole)
    return None


def _taken_first(look: CopyLook) -> tuple[int, bool, bool, int]:
    return len(look.bad_blocks), look.is_ill, look.is_master, look.replica.broker_id


def _repaired_first(look: CopyLook) -> tuple[bool, int, int]:
    # The nearest to whole first: then it is a source for the others.
    is_lacking = look.state is CopyState.LACKING
    return is_lacking, len(look.bad_blocks), look.replica.broker_id


def verdict(
    looks: _Looks, mark: SegmentMark, settings: RecoverySettings, wanted_copies: int
) -> RepairVerdict:
    """
    Returns how the claim ends, after the last repair.

    Args:
        looks: of all copies of the set.
        mark: as it was taken.
        settings: of the cluster.
        wanted_copies: of the set.
    """
    states = {it.state for it in looks.values()}
    if not looks:
        return RepairVerdict(VerdictKind.DONE, "the set has no brokers")
    if _is_deleted(looks):
        return RepairVerdict(VerdictKind.DONE, "retention has deleted the segment")
    if CopyState.UNKNOWN in states:
        why = _of(looks, CopyState.UNKNOWN)
        return RepairVerdict(VerdictKind.BACK_OFF, f"no definite answer: {why}")
    if CopyState.DIVERGENT in states or CopyState.OUTVOTED in states:
        why = "divergent: whole copies differ, and a person has to decide"
        return RepairVerdict(VerdictKind.BURY, why)
    if CopyState.GOOD not in states:
        return _without_copy(looks, mark, settings, wanted_copies)
    return _with_copy(looks, mark, settings)


def _is_deleted(looks: _Looks) -> bool:
    """
    Whether the log of the master, or every log, begins above the segment. A replica
    that cannot be opened without it needs it all the same.
    """
    if any(it.is_ill and it.state is CopyState.DAMAGED for it in looks.values()):
        return False
    outside = [it.state is CopyState.OUTSIDE for it in looks.values()]
    return all(outside) or any(
        it.is_master and it.state is CopyState.OUTSIDE for it in looks.values()
    )


def _without_copy(
    looks: _Looks, mark: SegmentMark, settings: RecoverySettings, wanted_copies: int
) -> RepairVerdict:
    states = {it.state for it in looks.values()}
    is_damaged = any(
        it.state is CopyState.DAMAGED and not it.is_unsettled for it in looks.values()
    )
    if CopyState.BEHIND in states and not is_damaged:
        why = f"replication has it still: {_of(looks, CopyState.BEHIND)}"
        return RepairVerdict(VerdictKind.REST, why, 1000 * settings.open_grace_s)
    is_only = len(looks) == 1 and wanted_copies <= 1
    why = f"no good copy{_left_to_operators(looks)}"
    return _hopeless(why, mark, settings, is_only=is_only)


def _left_to_operators(looks: _Looks) -> str:
    """
    What an operator has to do about replicas whose stores no other copy opens.
    """
    ill = (
        it.replica
        for it in looks.values()
        if it.is_ill and it.is_tried and it.state is CopyState.DAMAGED
    )
    names = " and ".join(f"{one.cluster}/{one.set_name}/{one.broker_id}" for one in ill)
    if not names:
        return ""
    return (
        f"; no copy here opens the store of {names}: `pystore recovery replace` makes "
        "the replica anew on another host; or stop its broker, keep the store beside, "
        "start it with an empty one, and clean the old id"
    )


def _hopeless(
    why: str, mark: SegmentMark, settings: RecoverySettings, *, is_only: bool = False
) -> RepairVerdict:
    """
    The verdict of a try in which every copy answered, and none has what is needed.
    """
    tries = mark.no_copy_tries + 1
    is_dead = is_only or tries >= settings.dead_after
    kind = VerdictKind.BURY if is_dead else VerdictKind.BACK_OFF
    return RepairVerdict(kind, f"{why} (try {tries})", is_without_copy=True)


def _with_copy(
    looks: _Looks, mark: SegmentMark, settings: RecoverySettings
) -> RepairVerdict:
    damaged = [it for it in looks.values() if it.state is CopyState.DAMAGED]
    if damaged:
        advice = _left_to_operators(looks)
        why = f"not repaired: {_of(looks, CopyState.DAMAGED)}{advice}"
        if all(it.is_tried for it in damaged):
            return _hopeless(why, mark, settings)
        return RepairVerdict(VerdictKind.BACK_OFF, why)
    whole = sum(it.state is CopyState.GOOD for it in looks.values())
    for one, it in sorted(looks.items()):
        fact = mark.missing.get(one)
        left = None if fact is None else _left(it, fact.reason, mark, settings)
        if left is not None:
            return left
        is_doubted = fact is not None and fact.reason is Reason.DIVERGENT
        is_alone = it.state is CopyState.GOOD and whole == 1 < len(looks)
        if is_doubted and is_alone:
            why = f"no other copy to compare with: {it.text}"
            return RepairVerdict(VerdictKind.BACK_OFF, why)
    repaired = [it.replica.broker_id for it in looks.values() if it.is_repaired]
    names = ", ".join(f"broker {one}" for one in sorted(repaired))
    now = f"; repaired now: {names}" if repaired else ""
    return RepairVerdict(VerdictKind.DONE, f"every copy is good{now}")


def _left(
    look: CopyLook, reason: Reason, mark: SegmentMark, settings: RecoverySettings
) -> RepairVerdict | None:
    """
    Returns what a copy that the mark names still waits for; ``None``: nothing.
    """
    if look.state is CopyState.LACKING:
        why = f"not filled: {look.text}"
        if not look.is_waiting:
            return _hopeless(why, mark, settings)
        return RepairVerdict(VerdictKind.REST, why, _TURN_MS)
    if look.state is CopyState.BEHIND:
        why = f"replication brings it: {look.text}"
        return RepairVerdict(VerdictKind.REST, why, 1000 * settings.open_grace_s)
    why = ""
    if look.state in (CopyState.DEAD, CopyState.UNVERIFIED):
        why = f"{look.text}; it returns, or is replaced"
    elif reason in _MEMBERSHIP:
        why = f"{reason.value}: {look.replica.text} has to be replaced"
    return RepairVerdict(VerdictKind.BACK_OFF, why) if why else None


def _of(looks: _Looks, state: CopyState) -> str:
    return "; ".join(it.text for it in looks.values() if it.state is state)
