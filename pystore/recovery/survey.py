"""
The survey: scans of the segments that find the end of the log.

With valid bounds, the scan begins in the segment of the synced end, and no record
below the bound may be bad (A5, A6). Without them, every record is scanned, and the
evidence in RocketMQ's files decides (A8).

Rules: docs/crash-safety.md, A5 to A8.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.bindings.ffi import NO_OFFSET, Check, Stop
from pystore.consumequeue.queues import ConsumeQueues
from pystore.core.results import Cursor
from pystore.recovery.rocketmq import RocketmqEvidence, find_above, gather_evidence
from pystore.recovery.segments import Segments, last_record
from pystore.recovery.torn_tail import Bound, Evidence, Findings, Verdict, decide
from pystore.stored_names import stored

__all__ = ["Survey", "survey_evidence", "survey_ours"]

# One checksum of the body is enough for torn or whole; `verify` checks both.
CHECKS = Check.BODY | Check.PROPERTY | Check.OFFSET | Check.ONCE


@stored
@dataclass(frozen=True, slots=True)
class Survey:
    """
    The result of the scans, and the verdict.

    Attributes:
        verdict: whole, torn, stale or corrupt.
        end_offset: of the whole records; never inside a record.
        scanned_from: the start of the first scan.
        scanned_bytes: the number of checked bytes.
        records: the number of whole records in them.
        unproved: how many of them have no property CRC.
        store_ms: the newest store time.
        last_offset: of the last whole record, if one was scanned.
        text: the problem of the bad record; empty: no bad record.
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
    The findings of consecutive scans.
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
    Check a log with valid bounds.

    Args:
        segments: of the log.
        bound: no record below may be bad.
        start: a record start or a segment's base, at most the bound.
        limit: of an unfinished cut: bytes above it are not scanned.
    """
    below = segments.scan_end(start, CHECKS, min(bound.offset, limit))
    scans = [below]
    if below.offset >= min(bound.offset, limit) and not below.stop.is_bad:
        above = segments.scan_end(below.offset, CHECKS | Check.FIELDS, limit)
        scans.append(above)
    last = scans[-1]
    if last.stop == Stop.LIMIT:
        # An unfinished cut: bytes above it are not scanned.
        last = scans[-1] = last._replace(stop=Stop.ZERO)
    verdict = decide(_findings(segments, scans), bound)
    end = verdict.end
    if last.stop == Stop.LAST and bound.offset < end:
        # A blank record without its next segment: the blank may be replaced.
        end = max(bound.offset, *(scan.record_end for scan in scans))
    store_ms = max(scan.record_ms for scan in scans)
    last_offset = _last_offset(scans, end)
    if last_offset is None and (before := last_record(segments, min(start, end))):
        # A new segment: store times continue from the one before.
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
    Check all of a log without valid bounds (A8).
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
        named, later = find_above(segments, queues, last.offset, evidence.checkpoint_ms)
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
