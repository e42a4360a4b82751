"""
Verdicts and findings: plain values that travel between driver and executors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

__all__ = ["Finding", "SegmentVerdict", "Verdict"]


class Verdict(StrEnum):
    """
    The verdict on a segment of one store.

    Attributes:
        OK: every byte agrees with the seal or with a replica.
        UNSEALED: nothing is wrong, but there is neither a seal nor a replica to
            compare with.
        ABSENT: the file is missing, though replicas have the segment or its
            neighbours exist.
        CORRUPT: bytes differ from what was written.
        DIVERGENT: the segment is valid by itself, but belongs to another log than the
            replicas' segment.
        ORPHAN: a file that belongs to no log.
        UNKNOWN: the segment could not be checked.
    """

    OK = "OK"
    UNSEALED = "UNSEALED"
    ABSENT = "ABSENT"
    CORRUPT = "CORRUPT"
    DIVERGENT = "DIVERGENT"
    ORPHAN = "ORPHAN"
    UNKNOWN = "UNKNOWN"


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


@dataclass(slots=True)
class SegmentVerdict:
    """
    The verdict on one segment of one store, or on the store's other files.

    Attributes:
        group: stores of one group are compared with each other.
        store: root of the store.
        segment: base offset; ``None``: the store's queues, epochs and small files.
        name: of a file that has no base offset.
        verdict: the verdict.
        is_bad: whether an operator has to act. An ABSENT segment that retention
            deleted and an UNSEALED segment are not bad.
        length: bytes of the log that the segment holds.
        checked_bytes: how many of these bytes were read and checked.
        records: how many whole records were checked.
        is_sealed: whether the segment agrees with a seal.
        replicas: how many other stores the segment was compared with.
        blocks: indexes of the bad blocks of 4 MiB, ascending.
        first_difference: offset of the first byte that differs from the replicas.
        digest: of the blocks' digests, in hex; equal segments have equal digests.
        evidence: one line for each reason.
        seconds: that the check took.
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
    is_sealed: bool = False
    replicas: int = 0
    blocks: tuple[int, ...] = ()
    first_difference: int | None = None
    digest: str = ""
    evidence: list[str] = field(default_factory=list)
    seconds: float = 0.0
