"""
Verdicts and findings: plain values that travel between driver and executors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = ["GOOD", "NOTE", "Finding", "ReplicaAtPlan", "SegmentVerdict", "Verdict"]

NOTE = "note: "
"""Begins the evidence that is no damage by itself."""


class Verdict(StrEnum):
    """
    The verdict on a segment of one store.

    Attributes:
        OK: every byte agrees with the seal or with a replica.
        UNSEALED: nothing is wrong, but there is neither a seal nor a replica to
            compare with.
        ABSENT: the file is missing, though replicas have the segment or its
            neighbours exist.
        SAMPLED: nothing is wrong in the blocks that were read.
        CORRUPT: bytes differ from what was written.
        DIVERGENT: the segment is valid by itself, but belongs to another log than the
            replicas' segment.
        ORPHAN: a file that belongs to no log.
        UNKNOWN: the segment could not be checked.
    """

    OK = "OK"
    UNSEALED = "UNSEALED"
    SAMPLED = "SAMPLED"
    ABSENT = "ABSENT"
    CORRUPT = "CORRUPT"
    DIVERGENT = "DIVERGENT"
    ORPHAN = "ORPHAN"
    UNKNOWN = "UNKNOWN"


GOOD = (Verdict.OK, Verdict.UNSEALED, Verdict.SAMPLED)
"""The verdicts without a finding."""


@dataclass(frozen=True, slots=True)
class Finding:
    """
    One thing that is wrong.

    Attributes:
        kind: of the thing: ``record``, ``seal``, ``file``, ``queueOffset``,
            ``consumeQueue``, ``epoch``, ``store``.
        offset: in the log; ``None``: the finding is about a whole file.
        text: one line for people.
        size: bytes from ``offset`` on that are bad or could not be checked.
    """

    kind: str
    offset: int | None
    text: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class ReplicaAtPlan:
    """
    A replica of a running broker when the round was planned. What has changed since is
    not marked by this round.

    Attributes:
        broker_id: in its set.
        incarnation: of the process that answered.
        begin: the first offset of its log.
        confirm: no byte below was cut any more.
        cut_generation: of its cuts; -1: not told.
        planned_at: seconds since 1970.
    """

    broker_id: int
    incarnation: str
    begin: int
    confirm: int
    cut_generation: int
    planned_at: float


@dataclass(slots=True)
class SegmentVerdict:
    """
    The verdict on one segment of one store, or on the store's other files.

    Attributes:
        group: stores of one group are compared with each other.
        store: root of the store.
        segment: base offset; ``None``: the whole store, or a file of it.
        name: of what else the row is about: a file that is no segment,
            ``consumequeue`` or ``epochs``. Those have a segment if it decides them.
        verdict: the verdict.
        is_bad: whether an operator has to act. An ABSENT segment that retention
            deleted and an UNSEALED segment are not bad.
        length: bytes of the log that the segment holds.
        checked_bytes: how many of these bytes were read and checked.
        records: how many whole records were checked.
        uncovered_bytes: the bytes of these records that no checksum covers.
        is_sampled: whether only some blocks were read, and the records in them.
        is_sealed: whether the segment agrees with a seal.
        replicas: how many other stores the segment was compared with.
        blocks: indexes of the bad blocks of 4 MiB, ascending.
        first_difference: offset of the first byte that differs from the replicas.
        digest: of the blocks' digests, in hex; equal segments have equal digests.
        read_blocks: indexes of the blocks that were read and are not bad, ascending,
            if blocks were digested.
        block_digests: XXH3-64 of each of them, as signed integers. If a block changed
            since an earlier round, its digest in that round.
        evidence: one line for each reason.
        seconds: that the check took.
        round: that checked it; ``None``: it is not known yet.
        verified_at: the time of that round, in seconds since 1970.
        replica: of which replica the row is, as of the plan; ``None``: of a store that
            was named by its path.
    """

    group: str
    store: str
    segment: int | None
    verdict: Verdict
    name: str = ""
    is_bad: bool = False
    length: int = 0
    checked_bytes: int = 0
    records: int = 0
    uncovered_bytes: int = 0
    is_sampled: bool = False
    is_sealed: bool = False
    replicas: int = 0
    blocks: tuple[int, ...] = ()
    first_difference: int | None = None
    digest: str = ""
    read_blocks: Sequence[int] = ()
    block_digests: Sequence[int] = ()
    evidence: list[str] = field(default_factory=list)
    seconds: float = 0.0
    round: int | None = None
    verified_at: float | None = None
    replica: ReplicaAtPlan | None = None
