"""
Where does the log end? Scans of the segments, weighed against what is known.

Two ways lead to a verdict. Where our own bounds hold, the scan begins in the
segment of the synced end and nothing below the bound may be bad (A5, A6). Where
they are void, or never were, every record is scanned and RocketMQ's evidence
decides (A8).

Rules: docs/crash-safety.md, A5 to A8.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.bindings.ffi import NO_OFFSET, Check, Stop
from pystore.consumequeue.queues import ConsumeQueues
from pystore.core.results import Cursor
from pystore.recovery.rocketmq import RocketmqEvidence, behind, gather_evidence
from pystore.recovery.segments import Segments, last_record
from pystore.recovery.torn_tail import Bound, Evidence, Findings, Verdict, decide
from pystore.stored_names import stored

__all__ = ["Survey", "survey_evidence", "survey_ours"]

# One proof of the body is enough to tell torn from whole; `verify` asks for both.
CHECKS = Check.BODY | Check.PROPERTY | Check.OFFSET | Check.ONCE


@stored
@dataclass(frozen=True, slots=True)
class Survey:
    """
    What the scans found, and what it means.

    Attributes:
        verdict: whole, torn, stale or corrupt.
        end_offset: of what is whole; never inside a record.
        scanned_from: where the first scan began.
        scanned_bytes: how much was checked.
        records: whole records in it.
        unproved: those without a property CRC.
        store_ms: the newest store time.
        last_offset: of the last whole record, if one was scanned.
        text: the bad record in words; empty where nothing is bad.
    """

    verdict: Verdict
    end_offset: int
    scanned_from: int
    scanned_bytes: int
    records: int
    unproved: int
    store_ms: int
    last_offset: int | None
    text: str


def _findings(
    segments: Segments,
    scans: list[Cursor],
    named: int | None = None,
    later: int | None = None,
) -> Findings:
    """
    What scans that followed one another found.
    """
    ends = [scan.record_end for scan in scans if scan.record_start is not None]
    last = scans[-1]
    record_end = ends[-1] if ends else None
    base = segments.bases[-1] if segments.bases else None
    return Findings(last.offset, last.stop, record_end, named, later, base)


def survey_ours(
    segments: Segments, bound: Bound, start: int, limit: int = NO_OFFSET
) -> Survey:
    """
    Check a log whose bounds hold.

    Args:
        segments: of the log.
        bound: nothing below it may be bad.
        start: a record start or a segment's base, at most the bound.
        limit: of an open cut: nothing above it is looked at.
    """
    below = segments.scan_end(start, CHECKS, min(bound.offset, limit))
    scans = [below]
    if below.offset >= min(bound.offset, limit) and not below.stop.is_bad:
        above = segments.scan_end(below.offset, CHECKS | Check.FIELDS, limit)
        scans.append(above)
    last = scans[-1]
    if last.stop == Stop.LIMIT:
        # An open cut: what is above it is not even looked at.
        last = scans[-1] = last._replace(stop=Stop.ZERO)
    verdict = decide(_findings(segments, scans), bound)
    end = verdict.end
    if last.stop == Stop.LAST and bound.offset < end:
        # A blank record without its next segment: the blank may be replaced.
        end = max(bound.offset, *(scan.record_end for scan in scans))
    store_ms = max(scan.record_ms for scan in scans)
    last_offset = _last_offset(scans, end)
    if last_offset is None and (before := last_record(segments, min(start, end))):
        # A segment was just begun: store times go on from the one before.
        last_offset, store_ms = before
    return Survey(
        verdict=verdict,
        end_offset=end,
        scanned_from=start,
        scanned_bytes=last.offset - start,
        records=sum(scan.records for scan in scans),
        unproved=sum(scan.unproved for scan in scans),
        store_ms=store_ms,
        last_offset=last_offset,
        text=last.text,
    )


def survey_evidence(
    segments: Segments, queues: ConsumeQueues, opening: RocketmqEvidence
) -> tuple[Survey, Evidence]:
    """
    Check a log without bounds of our own: all of it (A8).
    """
    evidence = gather_evidence(segments, queues, opening)
    first = segments.bases[0] if segments.bases else 0
    stale = NO_OFFSET if evidence.stale_above is None else evidence.stale_above
    fields_from = max(first, min(evidence.bound, segments.end))
    log = segments.log
    scan = log.scan(first, fields_from, CHECKS, stale_above=stale).finish()
    scans = [scan]
    if not scan.stop.is_bad and scan.stop == Stop.LIMIT:
        above = log.scan(
            scan.offset,
            NO_OFFSET,
            CHECKS | Check.FIELDS,
            stale_above=stale,
            after=scan,
        )
        scans.append(above.finish())
    last = scans[-1]
    named = later = None
    if last.stop.is_bad or last.stop == Stop.ZERO:
        named, later = behind(segments, queues, last.offset, evidence.checkpoint_ms)
    verdict = decide(_findings(segments, scans, named, later), evidence)
    return (
        Survey(
            verdict=verdict,
            end_offset=verdict.end,
            scanned_from=first,
            scanned_bytes=last.offset - first,
            records=sum(one.records for one in scans),
            unproved=sum(one.unproved for one in scans),
            store_ms=max(one.record_ms for one in scans),
            last_offset=_last_offset(scans, verdict.end),
            text=last.text,
        ),
        evidence,
    )


def _last_offset(scans: list[Cursor], end: int) -> int | None:
    found = [s.record_start for s in scans if s.record_start is not None]
    return found[-1] if found and found[-1] < end else None
