"""
What a replica is asked to do with one of its segments, and what it answers. Pure.

A job belongs to the claim of a worker: the same claim again is the same job, and its
end is one of the outcomes here. What a replica says about its copy is a definite
answer; a replica that does not answer has said nothing.

Source: AR-R6, AR-R8; docs/autorecovery.md.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import xxhash

__all__ = [
    "BadSource",
    "OrderAction",
    "OrderOutcome",
    "OrderProgress",
    "ReplicaStat",
    "SegmentOrder",
    "segment_digest",
]


@dataclass(frozen=True, slots=True)
class BadSource:
    """
    What a slave says about the bytes that its master sent: evidence against the source.

    Attributes:
        broker_id: of the master that sent them.
        offset: of the record that does not prove itself.
    """

    broker_id: int
    offset: int


@dataclass(frozen=True, slots=True)
class ReplicaStat:
    """
    A replica's answer about its copy. Files are looked at by their path, not through
    the open log.

    Attributes:
        incarnation: of the process, as it registered.
        begin: the first offset of the log.
        end: of the log.
        settled_end: no byte below it is cut any more.
        segment_size: in bytes.
        segments_address: ``HOST:PORT`` where it serves segments; empty: it serves none.
        problems: why the file of a settled segment cannot be read as a whole, by base
            offset.
        bad_sources: what came damaged from a master, since this process began.
        cut_generation: rises with each cut of the log; -1: not told, as by a broker of
            an earlier version.
        holes: of a store that cannot be opened: why the file of a segment above the
            settled end cannot be read as a whole, by base offset.
    """

    incarnation: str
    begin: int
    end: int
    settled_end: int
    segment_size: int
    segments_address: str = ""
    problems: Mapping[int, str] = field(default_factory=dict)
    bad_sources: tuple[BadSource, ...] = ()
    cut_generation: int = -1
    holes: Mapping[int, str] = field(default_factory=dict)


class OrderAction(Enum):
    """
    What a replica is asked to do with one of its segments.
    """

    CHECK = "check"
    """Blocks are read from the disk, past the page cache, and compared with the seal;
    without a seal, each record has to prove itself."""
    REPAIR = "repair"
    """All blocks are looked at; what is bad or missing is repaired from the sources,
    and read again."""
    FILL = "fill"
    """The segment is pulled, and put before the log once the one above it is there."""


@dataclass(frozen=True, slots=True)
class SegmentOrder:
    """
    A job for one replica. The same claim again is the same job.

    Attributes:
        claim: of the worker, a text that no other claim has.
        base: the segment's first offset.
        action: what is to be done.
        sources: `ReplicaStat.segments_address` of other copies, the preferred one
            first.
        blocks: those that `OrderAction.CHECK` reads; empty: all.
        bytes_per_second: of the blocks that are moved; 0: no limit but the host's.
        replaces: `OrderProgress.digest` of a whole copy that `OrderAction.REPAIR`
            replaces all the same: the majority of the copies is against it; empty: a
            whole copy is never changed.
        serve_bytes_per_second: of all blocks and digests that the host of this replica
            serves to others, from now on; 0: no limit but the host's; -1: as it was.
    """

    claim: str
    base: int
    action: OrderAction
    sources: tuple[str, ...] = ()
    blocks: tuple[int, ...] = ()
    bytes_per_second: int = 0
    replaces: str = ""
    serve_bytes_per_second: int = -1


class OrderOutcome(Enum):
    """
    What a job is, or how it ended.
    """

    RUNNING = "running"
    WHOLE = "whole"
    """The segment was whole; nothing was changed."""
    REPAIRED = "repaired"
    """It was not, and is now: the disk was read again."""
    DAMAGED = "damaged"
    """`OrderAction.CHECK` found bad blocks, or no readable file."""
    UNMENDED = "unmended"
    """It is damaged or missing, and none of the sources has its bytes. Each of them has
    answered; if one has not, the job has `FAILED`."""
    DIVERGENT = "divergent"
    """It is whole, and other copies are whole and differ: a person decides."""
    GONE = "gone"
    """Retention has deleted it, or it is above what is settled."""
    FAILED = "failed"
    """The job ended early: a full disk, a stopped job, an unreadable store."""


@dataclass(frozen=True, slots=True)
class OrderProgress:
    """
    How far a job is.

    Attributes:
        outcome: its state.
        detail: why, one line; empty: there is nothing to say.
        bad_blocks: that were found bad, rising.
        moved_bytes: of blocks, so far.
        digest: of a copy that was found whole: `segment_digest` of its blocks, of the
            seal or, where all were read, of the disk; empty: not known.
        is_sealed: the digest is that of its seal.
    """

    outcome: OrderOutcome
    detail: str = ""
    bad_blocks: Sequence[int] = ()
    moved_bytes: int = 0
    digest: str = ""
    is_sealed: bool = False


def segment_digest(blocks: Sequence[int]) -> str:
    """
    Returns one text for the digests of all blocks of a segment: copies with equal bytes
    have the same one.
    """
    return xxhash.xxh3_128_hexdigest(struct.pack(f">{len(blocks)}Q", *blocks))
