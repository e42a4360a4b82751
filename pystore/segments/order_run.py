"""
Carries out one order: one segment of a store, checked, repaired or filled.

It ends at the next block when it is told to, and says what it found. A copy of a file
that was interrupted goes on at the block where it stopped.

Source: AR-R6, AR-R8; docs/autorecovery.md, *Orders to a replica*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from pystore.errors import (
    CorruptError,
    InvalidError,
    OffsetOutOfRange,
    PystoreError,
    RemoteViolation,
    StorageError,
    UnavailableError,
)
from pystore.seals import BLOCK_BYTES, Seal
from pystore.segments.copy import CopyFacts, LogCopy, block_count
from pystore.segments.mend_plan import (
    MendAction,
    MendStep,
    Unmended,
    parting,
    plan_segment,
)
from pystore.segments.mending import check_step, kept_directory, unshared
from pystore.segments.order import (
    OrderAction,
    OrderOutcome,
    SegmentOrder,
    segment_digest,
)
from pystore.segments.order_target import OrderTarget
from pystore.segments.outvoted import OutvotedCopy, remove_seal, whole_digest
from pystore.segments.store_copy import StoreCopy

__all__ = ["JobStopped", "OpenSource", "OrderHooks", "carry_out"]

OpenSource = Callable[[str], LogCopy]
"""Opens the copy that a peer serves at an address; raises `PystoreError`."""

_Ended = tuple[OrderOutcome, str]
_T = TypeVar("_T")


class JobStopped(Exception):
    """
    The job was told to end.
    """


@dataclass(frozen=True, slots=True)
class OrderHooks:
    """
    What a run tells, and what it waits for. All but `found` raise `JobStopped`.

    Attributes:
        read: hears of bytes that were read here.
        moved: hears of bytes that were copied.
        found: hears of the blocks that are bad, rising.
        digested: hears of the digest of a copy that was found whole, and whether it is
            that of its seal.
        wait: lets a moment pass; raises `UnavailableError` after too many of them.
        pulling: held while a whole segment is copied.
        installing: held while a segment becomes one of the log.
    """

    read: Callable[[int], object]
    moved: Callable[[int], object]
    found: Callable[[Sequence[int]], object]
    digested: Callable[[str, bool], object]
    wait: Callable[[], object]
    pulling: Callable[[], AbstractContextManager[object]]
    installing: Callable[[], AbstractContextManager[object]]


def carry_out(
    order: SegmentOrder, target: OrderTarget, open_source: OpenSource, hooks: OrderHooks
) -> tuple[OrderOutcome, str]:
    """
    Does what an order says. Blocks; any thread, one for a segment at a time.

    Args:
        order: of a segment.
        target: the replica.
        open_source: called with each of the order's sources.
        hooks: of the run.

    Returns:
        How it ended, and why, one line.

    Raises:
        JobStopped: it was told to end.
        PystoreError: the store cannot be read or written, or is full; a source that is
            needed does not answer.
    """
    own = _WatchedCopy(StoreCopy(target.path), hooks.read)
    facts, base = own.facts, order.base
    is_fill = order.action is OrderAction.FILL
    is_settled = base + facts.segment_size <= facts.settled_end and (
        base >= facts.begin or is_fill
    )
    if not is_settled and not _is_hole(order, target, own):
        return OrderOutcome.GONE, (
            f"the settled segments here are from {facts.begin} to {facts.settled_end}"
        )
    if base % facts.segment_size:
        raise InvalidError(f"no segment begins at {base}", offset=base)
    try:
        if order.action is OrderAction.CHECK:
            return _checked(own, base, order.blocks, hooks)
        if is_fill and base >= facts.begin:
            return _filled(own, base)
        return _mended(order, target, own, open_source, hooks)
    except (InvalidError, OffsetOutOfRange, StorageError):
        if base >= target.begin or is_fill:
            raise
        # Retention has deleted it meanwhile.
        return OrderOutcome.GONE, "retention has deleted it"


def _is_hole(order: SegmentOrder, target: OrderTarget, own: LogCopy) -> bool:
    """
    Whether the order is to fill a hole above the settled end, without which the store
    does not open: no replication brings it. What is there stays as it is.
    """
    return (
        order.action is OrderAction.REPAIR
        and not target.is_open
        and order.base in own.facts.unsettled_bases()
        and bool(own.problem(order.base))
    )


def _filled(own: LogCopy, base: int) -> _Ended:
    if problem := own.problem(base):
        return OrderOutcome.DAMAGED, problem
    return OrderOutcome.WHOLE, "the log has it already"


def _checked(
    own: LogCopy, base: int, blocks: Sequence[int], hooks: OrderHooks
) -> _Ended:
    count = block_count(own.facts.segment_size)
    if problem := own.problem(base):
        return OrderOutcome.DAMAGED, problem
    wanted = sorted(set(blocks)) or range(count)
    if wanted[-1] >= count:
        raise InvalidError(f"block {wanted[-1]}: a segment has {count}", offset=base)
    seal, found = own.seal(base), own.digests(base, wanted)
    if seal is not None:
        bad = [i for i, one in found.items() if one != seal.block_digests[i]]
    else:
        damaged = own.damaged_blocks(base)
        bad = [i for i, one in found.items() if one is None or i in damaged]
    hooks.found(bad)
    if not bad:
        whole = [one for one in found.values() if one is not None]
        is_sealed = seal is not None
        digests = whole if seal is None else seal.block_digests
        if is_sealed or len(whole) == count:
            hooks.digested(segment_digest(digests), is_sealed)
        return OrderOutcome.WHOLE, ""
    return OrderOutcome.DAMAGED, f"{len(bad)} of {len(wanted)} blocks are bad"


def _mended(
    order: SegmentOrder,
    target: OrderTarget,
    own: LogCopy,
    open_source: OpenSource,
    hooks: OrderHooks,
) -> _Ended:
    sources = _Sources(order.sources, open_source, hooks.read)
    is_outvoted = bool(order.replaces) and order.replaces == whole_digest(
        own, order.base
    )
    if is_outvoted:
        own = OutvotedCopy(own, order.base)
    step = plan_segment(own, sources.copies, order.base)
    if step is None and order.action is OrderAction.FILL:
        step = Unmended(order.base, "no copy begins so low", ())
    if step is None:
        return OrderOutcome.WHOLE, ""
    if isinstance(step, Unmended):
        hooks.found(step.blocks)
        text = "; ".join((step.reason, *step.refusals, *sources.gone))
        if step.is_divergent:
            return OrderOutcome.DIVERGENT, text
        return sources.without_bytes(text)
    if step.action is MendAction.PATCH:
        hooks.found(step.blocks)
    try:
        _carry_out_step(step, target, own.facts, hooks, is_outvoted=is_outvoted)
    except CorruptError as error:
        # None of the sources gives the bytes any more.
        return sources.without_bytes(str(error))
    except _Risen as error:
        # What is before a log that begins later is not its history any more.
        return OrderOutcome.GONE, str(error)
    return OrderOutcome.REPAIRED, step.reason


class _Risen(Exception):
    """
    The log begins later than when the work began.
    """


def _carry_out_step(
    step: MendStep,
    target: OrderTarget,
    facts: CopyFacts,
    hooks: OrderHooks,
    *,
    is_outvoted: bool,
) -> None:
    path = target.path
    step = unshared(path, step)
    if step.action is MendAction.PATCH:
        target.patch(step, hooks.moved)
    else:
        with hooks.pulling():
            target.pull(step, hooks.moved)
        if step.action is MendAction.FILL:
            _wait_for_turn(step.base, target, facts, hooks)
        with hooks.installing():
            if step.action is MendAction.FILL:
                _check_history(step, target)
            if is_outvoted:
                # It tells the bytes that go.
                remove_seal(path, step.base)
            target.put_in_place(step, kept_directory(path))
    check_step(path, step)


def _wait_for_turn(
    base: int, target: OrderTarget, facts: CopyFacts, hooks: OrderHooks
) -> None:
    above = base + facts.segment_size
    while (begin := target.begin) != above:
        if begin > facts.begin:
            raise _Risen(f"the log begins at {begin} now, above {facts.begin}")
        hooks.wait()


def _check_history(step: MendStep, target: OrderTarget) -> None:
    """
    Much may have happened since the plan: the log may have been emptied.
    """
    mine, theirs = StoreCopy(target.path).facts, step.sources[0].facts
    if parted := parting(mine, theirs, step.base):
        raise InvalidError(f"{target.path}: {parted}", offset=step.base)


class _Sources:
    """
    The copies of an order that answer, and what is known of the others.

    Args:
        addresses: of all.
        open_source: opens one.
        check: called before each of their answers.
    """

    def __init__(
        self,
        addresses: Iterable[str],
        open_source: OpenSource,
        check: Callable[[int], object],
    ) -> None:
        self.copies: list[_WatchedCopy] = []
        self.gone: list[str] = []
        for one in addresses:
            check(0)
            try:
                opened = open_source(one)
            except PystoreError as error:
                # It does not run, or is another program: the others may have it.
                self.gone.append(str(error))
                continue
            self.copies.append(_WatchedCopy(opened, lambda _: check(0)))

    def without_bytes(self, text: str) -> _Ended:
        """
        Returns the end of a job without a source. That a source did not answer says
        nothing about its copy.

        Raises:
            UnavailableError: one did not answer.
        """
        if self.gone or any(one.is_silent for one in self.copies):
            raise UnavailableError(text)
        return OrderOutcome.UNMENDED, text


class _WatchedCopy:
    """
    A copy that hears of a stop between two blocks.

    Args:
        copy: the same.
        check: called before each answer, with the bytes that will be read.

    Attributes:
        is_silent: it failed to answer.
    """

    def __init__(self, copy: LogCopy, check: Callable[[int], object]) -> None:
        self._copy = copy
        self._check = check
        self.name = copy.name
        self.is_silent = False

    @property
    def facts(self) -> CopyFacts:
        """
        As `LogCopy.facts`.
        """
        return self._copy.facts

    def problem(self, base: int) -> str:
        """
        As `LogCopy.problem`.
        """
        return self._answer(lambda: self._copy.problem(base))

    def seal(self, base: int) -> Seal | None:
        """
        As `LogCopy.seal`.
        """
        return self._answer(lambda: self._copy.seal(base))

    def block(self, base: int, index: int) -> bytes | memoryview:
        """
        As `LogCopy.block`.
        """
        return self._answer(lambda: self._copy.block(base, index))

    def digests(self, base: int, indexes: Iterable[int]) -> dict[int, int | None]:
        """
        As `LogCopy.digests`.
        """
        found: dict[int, int | None] = {}
        for index in indexes:
            ask = partial(self._copy.digests, base, [index])
            found |= self._answer(ask, BLOCK_BYTES)
        return found

    def damaged_blocks(self, base: int) -> set[int]:
        """
        As `LogCopy.damaged_blocks`.
        """
        return self._answer(lambda: self._copy.damaged_blocks(base))

    def _answer(self, ask: Callable[[], _T], size: int = 0) -> _T:
        self._check(size)
        try:
            return ask()
        except (UnavailableError, RemoteViolation):
            # The caller says why.
            self.is_silent = True
            raise
