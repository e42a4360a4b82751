"""
What is said of a segment and a replica of it: plain values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

__all__ = ["Finding", "SegmentVerdict", "Verdict"]


class Verdict(StrEnum):
    """
    One word for a segment of one store.

    Attributes:
        OK: every byte agrees with its seal or with a replica.
        UNSEALED: nothing is wrong, and neither a seal nor a replica vouches for it.
        ABSENT: replicas have it, or its neighbours are here, and the file is not.
        CORRUPT: bytes are not what was written.
        DIVERGENT: whole in itself, and another log than that of the replicas.
        ORPHAN: a file that belongs to no log.
        UNKNOWN: it could not be checked.
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
    One thing that is not as it should be.

    Attributes:
        kind: what does not fit: ``record``, ``seal``, ``file``, ``queueOffset``,
            ``consumeQueue``, ``epoch``, ``store``.
        offset: in the log; ``None`` where it is about a file as a whole.
        text: one line.
        size: bytes that are bad or could not be looked at, from ``offset`` on.
    """

    kind: str
    offset: int | None
    text: str
    size: int = 0


@dataclass(slots=True)
class SegmentVerdict:
    """
    One segment in one store, or what the store has beside its segments.

    Attributes:
        group: whose replicas are compared.
        store: root of the store.
        segment: base offset; ``None``: the store's queues, epochs and small files.
        name: of the file, where it has no base offset.
        verdict: one word.
        is_bad: whether somebody has to act; an ABSENT segment that retention took
            and an UNSEALED one are not bad.
        length: bytes of the log that the segment holds.
        checked_bytes: of them, that were read and checked.
        records: whole ones.
        is_sealed: it agrees with a seal.
        replicas: how many other stores it was compared with.
        blocks: indexes of the bad blocks of 4 MiB, ascending.
        first_difference: offset of the first byte that the replicas have otherwise.
        digest: of the blocks' digests, in hex; equal for equal segments.
        evidence: one line each.
        seconds: it took.
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
