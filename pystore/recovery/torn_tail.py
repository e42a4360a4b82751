"""
The decision about the end of a log: whole, torn, stale or corrupt. Pure.

After an unclean close the last bytes of a log look the same after a crash and after a
loss of data. A bound separates the two: a bad record below it is corruption. The
bound of pystore is an offset (A5, A6). Without one, the evidence in RocketMQ's files
decides (A8): consume queues, checkpoint times and ``abort``.

Rules A5 to A8: docs/crash-safety.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pystore.bindings.ffi import Stop
from pystore.errors import InvalidError
from pystore.stored_names import stored

__all__ = [
    "Bound",
    "Corrupt",
    "Evidence",
    "Findings",
    "Stale",
    "Torn",
    "Verdict",
    "Whole",
    "decide",
]

_REASONS = {
    Stop.ZERO: "nothing was written here",
    Stop.LAST: "the last segment ends here",
    Stop.SIZE: "the record's size is impossible",
    Stop.MAGIC: "there is no record",
    Stop.LENGTHS: "the record's lengths do not add up",
    Stop.BODY: "the body's checksum differs",
    Stop.PROPERTY: "the record's checksum differs or is missing",
    Stop.OFFSET: "the record claims another offset",
    Stop.FIELDS: "the record has fields that no writer leaves",
    Stop.STALE: "stale: the store time falls back by over 3 s",
    Stop.UNREADABLE: "the bytes cannot be read",
    Stop.BLANK: "the blank record has a wrong size",
}


@dataclass(frozen=True, slots=True)
class Findings:
    """
    The stop of a scan from the front, and the facts about the bytes after it.

    Attributes:
        offset: the bad record, or the end of the good ones.
        stop: why; not ``ROWS`` nor ``LIMIT``, after which a scan continues.
        record_end: the end of the last whole record below, ``None`` if there is
            none: after a blank record it differs from ``offset``.
        named_behind: above ``offset``, a whole record with a queue entry, not newer
            than the flush time of the checkpoint.
        later_segment: above ``offset``, a segment that begins with a whole record.
        last_base: the base of the last segment, if ``stop`` is ``LAST``.
    """

    offset: int
    stop: Stop
    record_end: int | None = None
    named_behind: int | None = None
    later_segment: int | None = None
    last_base: int | None = None

    def __post_init__(self) -> None:
        if self.stop in (Stop.ROWS, Stop.LIMIT):
            raise InvalidError(f"a scan that stopped at {self.stop.name} has not ended")


@dataclass(frozen=True, slots=True)
class Bound:
    """
    A bound of the metastore or the live page: no record below may be bad (A5).

    Attributes:
        offset: the published end in the same boot and mount, else the synced end.
        name: which of them, for the message.
    """

    offset: int
    name: str = "synced end"


@dataclass(frozen=True, slots=True)
class Evidence:
    """
    The evidence of a store without valid bounds (A8).

    Attributes:
        is_abort: whether ``abort`` was there: RocketMQ did not stop cleanly.
        start_offset: where RocketMQ's recovery would start.
        named_offset: of the last record with a queue entry; ``None``: no record.
        named_end: its end.
        checkpoint_ms: the store time of the last flushed record, by the checkpoint.
    """

    is_abort: bool
    start_offset: int
    named_offset: int | None = None
    named_end: int | None = None
    checkpoint_ms: int = 0

    @property
    def bound(self) -> int:
        """
        The offset below which no record may be bad. Above it a scan also checks the
        fields of records without property CRC (A6).
        """
        return self.start_offset if self.is_abort else self.named_offset or 0

    @property
    def stale_above(self) -> int | None:
        """
        Above this offset a store time that falls back marks stale bytes.

        ``None`` if no queue has an entry: then a clock that was set back looks like a
        truncation, and the records after it would be lost.
        """
        return self.named_end


@stored
@dataclass(frozen=True, slots=True)
class Whole:
    """
    No bad record; the log ends at ``end``.
    """

    end: int


@stored
@dataclass(frozen=True, slots=True)
class Torn:
    """
    A crash left a part of a record: the log is cut at ``end``.
    """

    end: int
    reason: str
    rule: str


@stored
@dataclass(frozen=True, slots=True)
class Stale:
    """
    Records from before a truncation follow: the log is cut at ``end``.
    """

    end: int
    reason: str
    rule: str = "A8"


@dataclass(frozen=True, slots=True)
class Corrupt:
    """
    Promised bytes are bad or missing: the store does not open for writing.

    Attributes:
        end: of the whole records below.
        offset: of the damage.
        reason: one line.
        rule: of docs/crash-safety.md.
    """

    end: int
    offset: int
    reason: str
    rule: str


Verdict: TypeAlias = Whole | Torn | Stale | Corrupt


def decide(findings: Findings, bound: Bound | Evidence) -> Verdict:
    """
    Decides what the stop of a scan means.

    Args:
        findings: of a scan from the front, or from a bound that was checked before.
        bound: of pystore; or the evidence, if that is void (A7) or missing.
    """
    if isinstance(bound, Bound):
        end, rule = findings.offset, "A6"
        promise = _promise_of_ours(findings, bound)
    else:
        end, rule = _end_as_rocketmq(findings), "A8"
        promise = _promise_of_evidence(findings, bound)
    if not promise and findings.stop is Stop.UNREADABLE:
        promise = "unreadable bytes are never a torn tail"
        rule = "A6"
    reason = _REASONS[findings.stop]
    if promise:
        return Corrupt(end, findings.offset, f"{reason}, but {promise}", rule)
    if findings.stop is Stop.STALE:
        return Stale(end, reason)
    if findings.stop.is_bad:
        return Torn(end, reason, "A6")
    return Whole(end)


def _promise_of_ours(findings: Findings, bound: Bound) -> str:
    if findings.offset < bound.offset:
        return f"the {bound.name} is {bound.offset}"
    return ""


def _promise_of_evidence(findings: Findings, evidence: Evidence) -> str:
    """
    The clauses of A8, in the order of the page.
    """
    offset = findings.offset
    if evidence.is_abort and offset < evidence.start_offset:
        return f"RocketMQ's recovery would start at {evidence.start_offset}"
    if not evidence.is_abort and offset < (evidence.named_offset or 0):
        return f"consume queues name the record at {evidence.named_offset}"
    if findings.named_behind is not None:
        return (
            f"the record at {findings.named_behind} is whole, named by a consume "
            "queue and older than the checkpoint"
        )
    if findings.later_segment is not None:
        return f"segment {findings.later_segment} begins with a whole record"
    return ""


def _end_as_rocketmq(findings: Findings) -> int:
    """
    A blank record before no segment is not part of RocketMQ's log: its end
    is that of the last record, and the next record may replace the blank.
    """
    if findings.stop is not Stop.LAST:
        return findings.offset
    ends = (findings.record_end, findings.last_base)
    return max((end for end in ends if end is not None), default=findings.offset)
