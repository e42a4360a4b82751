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
from pystore.recovery.behind import NOTHING, Behind
from pystore.stored_names import stored

__all__ = [
    "STALE",
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
    Stop.PROPERTY: "the record's checksum differs",
    Stop.OFFSET: "the record claims another offset",
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
        behind: records and lost sectors behind ``offset``.
        is_torn: whether the record at ``offset`` passes every check, but its end is
            lost (A6).
        is_stale: whether a whole record at ``offset`` repeats or skips offsets of its
            queue (A8).
    """

    offset: int
    stop: Stop
    record_end: int | None = None
    named_behind: int | None = None
    later_segment: int | None = None
    last_base: int | None = None
    behind: Behind = NOTHING
    is_stale: bool = False
    is_torn: bool = False

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
        stored_end: an end that pystore stored as synced and that no cut explains (A16).
        stored_name: its source.
    """

    is_abort: bool
    start_offset: int
    named_offset: int | None = None
    named_end: int | None = None
    checkpoint_ms: int = 0
    stored_end: int = 0
    stored_name: str = ""

    @property
    def bound(self) -> int:
        """
        The offset below which no record may be bad.
        """
        bound = self.start_offset if self.is_abort else self.named_offset or 0
        return max(bound, self.stored_end)

    @property
    def stale_above(self) -> int | None:
        """
        Above this offset, records that repeat or skip offsets of their queue are stale.

        ``None`` if no queue has an entry: then nothing names the offsets.
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

    ``has_lost_sector``: whether a zero sector proves it; otherwise the bytes of the log
    end inside the record, or a sector of it ends in zeros.
    """

    end: int
    reason: str
    rule: str
    has_lost_sector: bool = True


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
    if findings.is_stale:
        reason = STALE
    elif findings.is_torn:
        reason = "zeros stand where the record ends"
    if promise:
        return Corrupt(end, findings.offset, f"{reason}, but {promise}", rule)
    if findings.is_stale:
        return Stale(end, reason)
    return _above(findings, end, reason, is_ours=isinstance(bound, Bound))


STALE = "stale: the record repeats or skips offsets of its queue"


def _above(findings: Findings, end: int, reason: str, *, is_ours: bool) -> Verdict:
    """
    Nothing is promised at the stop: the zeros of lost sectors tell a torn tail from
    bytes that changed later (A6).
    """
    behind = findings.behind
    is_end = not findings.stop.is_bad and behind.record is None
    if is_end and not findings.is_torn:
        return Whole(end)
    is_lost = findings.is_torn or behind.has_lost_sector
    if is_lost or behind.ends_inside or behind.has_unwritten_end:
        return Torn(end, reason, "A6", is_lost)
    if behind.record is not None:
        if behind.continues:
            text = f"whole records follow at {behind.record}, and no sector is zero"
            return Corrupt(end, findings.offset, f"{reason}, but {text}", "A6")
        return Stale(end, reason)
    if is_ours:
        text = "no sector of it is zero, as a crash would leave it"
        return Corrupt(end, findings.offset, f"{reason}, but {text}", "A6")
    return Torn(end, reason, "A6", has_lost_sector=False)


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
    if offset < evidence.stored_end:
        return f"the {evidence.stored_name} is {evidence.stored_end}"
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
