"""
What mends a copy of a log from other copies, segment by segment.

A segment is judged by evidence, never by presence: the own seal says what its bytes
were; without one a record that does not prove itself is damage, and the bytes of
another copy count only if they prove themselves or its seal does. Copies that are each
whole and differ are named, and nothing is changed.

Source: docs/autorecovery.md, *Evidence*; A22 (docs/crash-safety.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from pystore.epochs.table import EpochTable
from pystore.errors import PystoreError
from pystore.seals import Seal
from pystore.segments.copy import CopyFacts, LogCopy, block_count

__all__ = [
    "MendAction",
    "MendPlan",
    "MendStep",
    "Unmended",
    "parting",
    "plan_mending",
    "plan_segment",
]

_Digests = tuple[int, ...]


class MendAction(Enum):
    """
    What is done to a segment.
    """

    PATCH = "patch"
    """Bad blocks are written in place."""
    INSTALL = "install"
    """It gets a whole file."""
    FILL = "fill"
    """It is put before the first one."""


@dataclass(frozen=True, slots=True)
class MendStep:
    """
    One segment and what mends it.

    Attributes:
        base: its first offset.
        action: what is done.
        reason: why.
        sources: the copies that have the bytes, the preferred one first.
        digests: XXH3-64 of each block as it has to be.
        blocks: that are bad; all of them but for a patch.
        epochs: of the first source.
        seal: of a source; ``None``: none has one.
    """

    base: int
    action: MendAction
    reason: str
    sources: tuple[LogCopy, ...]
    digests: _Digests
    blocks: tuple[int, ...]
    epochs: EpochTable
    seal: Seal | None = None


@dataclass(frozen=True, slots=True)
class Unmended:
    """
    A segment that no copy mends, with what each of them lacks.

    Attributes:
        base: its first offset.
        reason: what is wrong with it.
        refusals: why each copy does not give it.
        is_divergent: it is whole, and others sealed other bytes.
        blocks: that are bad; none if there is no file that can be read.
    """

    base: int
    reason: str
    refusals: tuple[str, ...]
    is_divergent: bool = False
    blocks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MendPlan:
    """
    The steps: whole files and blocks first, then downwards from the first segment.
    """

    steps: tuple[MendStep, ...]
    unmended: tuple[Unmended, ...] = ()


def plan_mending(
    own: LogCopy,
    sources: Sequence[LogCopy],
    segment: int | None = None,
    *,
    is_closed: bool = False,
) -> MendPlan:
    """
    Compares a copy with its own seals and with other copies; reads every block of it.

    Args:
        own: the copy to be mended.
        sources: the others, the preferred one first.
        segment: only the one with this base offset; ``None``: all.
        is_closed: no process has it open: it also gets what is missing above its
            settled end, without which it does not open.

    Raises:
        PystoreError: a copy cannot be read.
    """
    steps: list[MendStep] = []
    unmended: list[Unmended] = []
    search = _Search(own, sources)
    holes = own.facts.unsettled_bases() if is_closed else ()
    bases = *own.facts.bases(), *(one for one in holes if own.problem(one))
    for base in bases:
        if segment in (None, base):
            _add(search.judge(base), steps, unmended)
    size = own.facts.segment_size
    lowest = max(0, segment or 0)
    for base in range(own.facts.begin - size, lowest - 1, -size):
        found = search.fill(base)
        _add(found, steps, unmended)
        if not isinstance(found, MendStep):
            break
    return MendPlan(tuple(steps), tuple(unmended))


def plan_segment(
    own: LogCopy, sources: Sequence[LogCopy], base: int
) -> MendStep | Unmended | None:
    """
    Compares one segment with its own seal and with other copies; of one below the log
    finds who has it, wherever the log begins now.

    Args:
        own: the copy to be mended.
        sources: the others, the preferred one first.
        base: of the segment, settled.

    Returns:
        What mends it, or why no copy does; ``None``: nothing shows that it is damaged,
        or no copy begins so low.

    Raises:
        PystoreError: the own copy cannot be read.
    """
    search = _Search(own, sources)
    return search.fill(base) if base < own.facts.begin else search.judge(base)


def parting(mine: CopyFacts, theirs: CopyFacts, base: int) -> str:
    """
    Returns why the histories of two copies differ where a segment ends; empty: they
    agree.

    Below the settled end the bytes are those of the set. Above it only equal epochs up
    to the end of the segment prove that a copy has the bytes that were here: else a
    tail that the set has cut would be joined to bytes of another history.
    """
    end, is_settled = base + mine.segment_size, not mine.is_unsettled(base)
    if not is_settled and mine.doubt:
        return f"which history this log is of is not known: {mine.doubt}"
    if not len(mine.epochs) or not len(theirs.epochs):
        return "" if is_settled else "without epochs no history is known"
    point = mine.epochs.consistent_point(theirs.epochs, mine.end, theirs.end)
    if point is not None and point >= end:
        return ""
    if not is_settled and point == mine.end:
        return f"this log ended at {point}, within the segment"
    return f"the two histories part at {point or 0}"


def _add(
    found: MendStep | Unmended | None, steps: list[MendStep], unmended: list[Unmended]
) -> None:
    if isinstance(found, Unmended):
        unmended.append(found)
    elif found is not None:
        steps.append(found)


@dataclass(slots=True)
class _Offer:
    """
    What the copies offer for one segment.

    Attributes:
        expected: the digests of its blocks; ``None``: the first copy says them.
        sources: the copies that have these bytes.
        refusals: why others have not.
        seal: of a source.
        is_disputed: copies prove different bytes, and no seal here decides.
    """

    expected: _Digests | None
    sources: list[LogCopy] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    seal: Seal | None = None
    is_disputed: bool = False

    def take(self, source: LogCopy, digests: _Digests, *, is_sealed: bool) -> None:
        """
        Adds a copy that proves its bytes, and none that differ from those here.

        Args:
            source: the copy.
            digests: of all its blocks.
            is_sealed: the bytes that were sealed here are expected.
        """
        expected = self.expected or digests
        other = [i for i, one in enumerate(digests) if one != expected[i]]
        if not other:
            self.expected = digests
            self.sources.append(source)
        elif is_sealed:
            why = f"its block {other[0]} is not the one that was sealed"
            self.refusals.append(f"{source.name}: {why}")
        else:
            self.is_disputed = True
            why = f"its block {other[0]} differs from that of {self.sources[0].name}"
            self.refusals.append(f"{source.name}: {why}")


class _Search:
    """
    The search for sources of one copy.
    """

    def __init__(self, own: LogCopy, sources: Sequence[LogCopy]) -> None:
        self._own = own
        self._facts = own.facts
        self._sources: list[LogCopy] = []
        self._refused: list[str] = []
        for one in sources:
            if reason := _other_log(own.facts, one.facts):
                self._refused.append(f"{one.name}: {reason}")
            else:
                self._sources.append(one)

    def judge(self, base: int) -> MendStep | Unmended | None:
        """
        Returns what mends a segment of the log; ``None``: nothing shows that it is
        damaged.
        """
        own, count = self._own, block_count(self._facts.segment_size)
        seal = own.seal(base)
        expected = None if seal is None else seal.block_digests
        if problem := own.problem(base):
            offer = self._offer(base, expected, tuple(range(count)), {})
            return self._found(base, MendAction.INSTALL, problem, offer)
        found = own.digests(base, range(count))
        if expected is not None:
            bad = [index for index, one in found.items() if one != expected[index]]
        else:
            damaged = own.damaged_blocks(base)
            bad = [i for i, one in found.items() if one is None or i in damaged]
        if not bad:
            return self._other_seals(base, tuple(found.values()))
        whole = {index: one for index, one in found.items() if index not in bad}
        offer = self._offer(base, expected, tuple(bad), whole)
        reason = f"{len(bad)} of {count} blocks are bad"
        return self._found(base, MendAction.PATCH, reason, offer, tuple(bad))

    def fill(self, base: int) -> MendStep | Unmended | None:
        """
        Returns what puts a segment before the log; ``None``: no copy begins so low.
        """
        if all(one.facts.begin > base for one in self._sources):
            return None
        count = block_count(self._facts.segment_size)
        offer = self._offer(base, None, tuple(range(count)), {})
        return self._found(base, MendAction.FILL, "the log begins above it", offer)

    def _found(
        self,
        base: int,
        action: MendAction,
        reason: str,
        offer: _Offer,
        blocks: tuple[int, ...] = (),
    ) -> MendStep | Unmended:
        if offer.is_disputed:
            reason += ", and the other copies differ: name the right one alone"
        if offer.is_disputed or not offer.sources or offer.expected is None:
            refusals = (*self._refused, *offer.refusals)
            return Unmended(base, reason, refusals, blocks=blocks)
        return MendStep(
            base,
            action,
            reason,
            tuple(offer.sources),
            offer.expected,
            blocks or tuple(range(len(offer.expected))),
            offer.sources[0].facts.epochs,
            offer.seal,
        )

    def _offer(
        self,
        base: int,
        expected: _Digests | None,
        blocks: tuple[int, ...],
        whole: Mapping[int, int | None],
    ) -> _Offer:
        """
        The copies that have a segment.

        Args:
            base: of the segment.
            expected: the digests that were sealed here.
            blocks: those that are needed.
            whole: the digests of the others, as they are here.
        """
        offer = _Offer(expected)
        for source in self._sources:
            try:
                digests, seal = self._proved(source, base, blocks)
            except PystoreError as error:
                # It went away: the next one may have the segment.
                offer.refusals.append(str(error))
                continue
            if isinstance(digests, str):
                offer.refusals.append(f"{source.name}: {digests}")
            elif reason := _difference(digests, whole):
                offer.refusals.append(f"{source.name}: {reason}")
            else:
                offer.take(source, digests, is_sealed=expected is not None)
                if source in offer.sources:
                    offer.seal = offer.seal or seal
        return offer

    def _proved(
        self, source: LogCopy, base: int, blocks: tuple[int, ...]
    ) -> tuple[_Digests | str, Seal | None]:
        """
        The digests of a source's blocks, or why it proves none. Of a sealed segment
        some needed blocks are read; all of them are compared when they come.
        """
        facts = source.facts
        if not facts.has(base):
            return f"it has only the offsets {facts.begin} to {facts.settled_end}", None
        if problem := source.problem(base):
            return problem, None
        if parted := parting(self._facts, facts, base):
            return parted, None
        count = block_count(facts.segment_size)
        if seal := source.seal(base):
            digests = seal.block_digests
            some = blocks if len(blocks) < count else blocks[:1]
            found = source.digests(base, some)
            bad = [i for i, one in found.items() if one != digests[i]]
        else:
            found = source.digests(base, range(count))
            damaged = source.damaged_blocks(base)
            bad = [i for i, one in found.items() if one is None or i in damaged]
            digests = tuple(one for one in found.values() if one is not None)
        return (f"its own block {bad[0]} is bad" if bad else digests), seal

    def _other_seals(
        self, base: int, digests: tuple[int | None, ...]
    ) -> Unmended | None:
        """
        The copies that sealed other bytes than a whole segment has; ``None``: none did.
        """
        seals = [(one, _seal_of(one, base)) for one in self._sources]
        others = tuple(
            f"{one.name}: it sealed other bytes"
            for one, seal in seals
            if seal is not None and seal.block_digests != digests
        )
        if not others:
            return None
        reason = "whole here, and other copies differ"
        return Unmended(base, reason, others, is_divergent=True)


def _seal_of(source: LogCopy, base: int) -> Seal | None:
    try:
        return source.seal(base)
    except PystoreError:
        # It went away, and says nothing.
        return None


def _other_log(mine: CopyFacts, theirs: CopyFacts) -> str:
    """
    Why a store is no copy of the same log; empty: it may be one.
    """
    if theirs.segment_size != mine.segment_size:
        return f"its segments have {theirs.segment_size} bytes"
    if mine.identity is not None and theirs.identity is not None:
        place = (mine.identity.cluster, mine.identity.broker)
        cluster, broker = theirs.identity.cluster, theirs.identity.broker
        if place != (cluster, broker):
            return f"it is of {broker} in {cluster}"
    return ""


def _difference(digests: _Digests, whole: Mapping[int, int | None]) -> str:
    """
    Why the blocks of a copy are not those of the segment; empty: they may be.
    """
    for index, digest in enumerate(digests):
        if whole.get(index, digest) != digest:
            return f"its block {index} differs from the whole one here"
    return ""
