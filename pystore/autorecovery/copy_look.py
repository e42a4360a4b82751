"""
What a worker knows of one copy of a segment, and where it follows from. Pure.

Source: AR-R6, AR-R8, AR-R18; A22 (docs/crash-safety.md);
docs/autorecovery.md, *The worker*.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from pystore.autorecovery.replica_peers import ReplicaAddress
from pystore.controller.protocol.set_descriptions import BrokerDescription
from pystore.segments.copy import block_count
from pystore.segments.order import OrderOutcome, OrderProgress, ReplicaStat

__all__ = ["REPAIRED", "CopyLook", "CopyState", "checked", "first_look", "told"]

REPAIRED = "repaired; before: "
"""What is said of a good copy begins so, if this worker made it right."""


class CopyState(Enum):
    """
    What a copy is.
    """

    UNCHECKED = "not looked at yet"
    GOOD = "good"
    DAMAGED = "damaged"
    """Blocks are bad, or there is no readable file."""
    DIVERGENT = "divergent"
    """Whole, and other copies are whole and differ."""
    OUTVOTED = "outvoted"
    """Divergent, and the majority is against it."""
    LACKING = "lacking"
    """The replica fills its history and does not have it yet."""
    OUTSIDE = "outside"
    """The log begins above it, and nothing is missing there."""
    BEHIND = "behind"
    """It may still be cut there, or is not there yet: replication brings it."""
    UNVERIFIED = "unverified"
    """It proves nothing: a broker of RocketMQ."""
    DEAD = "dead"
    """The leading controller says so."""
    UNKNOWN = "unknown"
    """There was no definite answer."""


@dataclass(frozen=True, slots=True)
class CopyLook:
    """
    One copy.

    Attributes:
        replica: where it is.
        state: what it is.
        why: one line.
        incarnation: of the process that answered; empty: none did.
        is_master: its replica is the recorded master.
        address: where it serves its segments; empty: nowhere.
        blocks: their number.
        bad_blocks: those that were found bad, rising; of a file that cannot be read:
            all.
        digest: of the whole segment; empty: not known.
        is_sealed: its bytes are those of its seal.
        is_next: its log begins where the segment ends.
        is_tried: this worker could not repair it.
        is_waiting: a fill has to wait for the segment above it.
        is_repaired: it was damaged or missing, and is right now.
        is_ill: its store cannot be opened before it is repaired.
        is_unsettled: it lacks the segment above its settled end: it is no damage of
            what the set has settled, but the store does not open.
    """

    replica: ReplicaAddress
    state: CopyState
    why: str
    incarnation: str = ""
    is_master: bool = False
    address: str = ""
    blocks: int = 0
    bad_blocks: tuple[int, ...] = ()
    digest: str = ""
    is_sealed: bool = False
    is_next: bool = False
    is_tried: bool = False
    is_waiting: bool = False
    is_repaired: bool = False
    is_ill: bool = False
    is_unsettled: bool = False

    @property
    def text(self) -> str:
        """
        For people: what it is and why.
        """
        why = f": {self.why}" if self.why else ""
        return f"{self.replica.text} is {self.state.value}{why}"

    @property
    def is_source(self) -> bool:
        """
        Whether other copies may take blocks from it. Only what is settled and was
        looked at is a source; of a damaged one the blocks that are not bad.
        """
        if not self.address:
            return False
        has_some = len(self.bad_blocks) < self.blocks
        return self.state is CopyState.GOOD or (
            self.state is CopyState.DAMAGED and has_some
        )

    def unknown(self, why: str) -> CopyLook:
        """
        Returns the look of a copy that gave no definite answer.
        """
        return replace(self, state=CopyState.UNKNOWN, why=why)


def first_look(
    replica: ReplicaAddress, broker: BrokerDescription, *, is_master: bool
) -> CopyLook:
    """
    Returns what the controller says about a copy; `CopyState.UNCHECKED`: the replica
    has to be asked.
    """
    state, why = CopyState.UNCHECKED, ""
    is_there = broker.is_alive or broker.is_ill
    if not is_there:
        state = CopyState.DEAD
        why = f"the controller says so, for {broker.since_ms // 1000} s"
    elif broker.incarnation is None and not broker.is_ill:
        state = CopyState.UNVERIFIED
        why = (
            "a broker of RocketMQ; it is repaired while it is stopped, by pystore "
            "recovery mend"
        )
    elif not broker.address:
        state, why = CopyState.UNKNOWN, "its address is not known"
    return CopyLook(replica, state, why, is_master=is_master)


def told(
    look: CopyLook,
    broker: BrokerDescription,
    stat: ReplicaStat,
    base: int,
    *,
    is_mixed: bool = False,
) -> CopyLook:
    """
    Returns a look with the replica's answer; `CopyState.UNCHECKED`: its blocks have to
    be read.

    Args:
        look: the first one.
        broker: as the controller described it.
        stat: of the replica.
        base: of the segment.
        is_mixed: the set has a broker of RocketMQ.
    """
    # One that is ill registers with no controller.
    if stat.incarnation != broker.incarnation and not broker.is_ill:
        return look.unknown("another process answered than the controller knows")
    size = stat.segment_size
    look = replace(
        look,
        incarnation=stat.incarnation,
        address=stat.segments_address,
        blocks=block_count(size),
        is_next=base + size == stat.begin,
        is_ill=broker.is_ill,
    )
    if base % size:
        why = f"its segments have {size} bytes"
        return replace(look, state=CopyState.UNVERIFIED, why=why)
    if base < stat.begin:
        is_filling = broker.begin.is_filling
        state = CopyState.LACKING if is_filling else CopyState.OUTSIDE
        return replace(look, state=state, why=f"its log begins at {stat.begin}")
    if base + size > stat.settled_end:
        return _unsettled(look, stat, base, is_mixed=is_mixed)
    problem = stat.problems.get(base)
    if problem:
        every = tuple(range(look.blocks))
        return replace(look, state=CopyState.DAMAGED, why=problem, bad_blocks=every)
    return look


def _unsettled(
    look: CopyLook, stat: ReplicaStat, base: int, *, is_mixed: bool
) -> CopyLook:
    problem = stat.holes.get(base)
    if problem is None:
        why = f"its log is settled up to {stat.settled_end}"
        return replace(look, state=CopyState.BEHIND, why=why)
    look = replace(
        look,
        state=CopyState.DAMAGED,
        why=f"{problem}, above what is settled there",
        bad_blocks=tuple(range(look.blocks)),
        is_unsettled=True,
    )
    if not is_mixed:
        return look
    # A master of RocketMQ may name several masterships by one epoch (RMQ-R159).
    why = f"{look.why}; beside a broker of RocketMQ the epochs prove nothing"
    return replace(look, why=why, is_tried=True)


def checked(look: CopyLook, progress: OrderProgress) -> CopyLook:
    """
    Returns a look with the end of a check. What is no definite answer about the bytes
    is `CopyState.UNKNOWN`, never damage (AR-R6).
    """
    why = progress.detail
    if progress.outcome in (OrderOutcome.WHOLE, OrderOutcome.REPAIRED):
        is_repaired = progress.outcome is OrderOutcome.REPAIRED
        if is_repaired:
            # What its broker says of it was true before.
            why = f"{REPAIRED}{why or look.why}"
        elif look.is_repaired:
            # Read once more.
            why = look.why
        return replace(
            look,
            state=CopyState.GOOD,
            why=why,
            is_repaired=is_repaired or look.is_repaired,
            bad_blocks=(),
            digest=progress.digest,
            is_sealed=progress.is_sealed,
        )
    if progress.outcome is OrderOutcome.DAMAGED:
        bad = tuple(progress.bad_blocks) or tuple(range(look.blocks))
        why = why or f"{len(bad)} of {look.blocks} blocks are bad"
        return replace(look, state=CopyState.DAMAGED, why=why, bad_blocks=bad)
    if progress.outcome is OrderOutcome.DIVERGENT:
        return replace(look, state=CopyState.DIVERGENT, why=why)
    return look.unknown(why or f"its check ended as {progress.outcome.value}")
