"""
The survey: scans of the segments that find the end of the log.

With valid bounds, the scan begins in the segment of the synced end, and no record
below the bound may be bad (A5, A6). Without them, every record is scanned, and the
evidence in RocketMQ's files decides (A8).

Rules: docs/crash-safety.md, A5 to A8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pystore.bindings.ffi import NO_CHECK, NO_OFFSET, Check, Stop
from pystore.consumequeue.queues import ConsumeQueues
from pystore.core.results import Cursor
from pystore.damage.copied_crc import CopiedCrcCheck
from pystore.damage.torn_record import torn_records
from pystore.recovery.behind import NOTHING, Behind, look_behind
from pystore.recovery.rocketmq import find_above
from pystore.recovery.segments import Segments, last_record
from pystore.recovery.stale import QueueOrder
from pystore.recovery.torn_tail import Bound, Evidence, Findings, Verdict, decide
from pystore.stored_names import stored

__all__ = ["Survey", "first_stale", "survey_evidence", "survey_ours"]

# One checksum of the body is enough for torn or whole; `verify` checks both.
CHECKS = Check.BODY | Check.PROPERTY | Check.PASS_COPIED | Check.OFFSET | Check.ONCE


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
    *,
    named: int | None = None,
    later: int | None = None,
    behind: Behind = NOTHING,
    is_stale: bool = False,
    is_torn: bool = False,
) -> Findings:
    """
    The findings of consecutive scans.
    """
    ends = [scan.record_end for scan in scans if scan.record_start is not None]
    last = scans[-1]
    record_end = ends[-1] if ends else None
    base = segments.bases[-1] if segments.bases else None
    return Findings(
        last.offset,
        last.stop,
        record_end,
        named,
        later,
        base,
        behind,
        is_stale,
        is_torn,
    )


class _Scanned(NamedTuple):
    """
    The cursors of a scan up to the first bad record, and whether that one passed every
    check, but lost a sector.
    """

    scans: list[Cursor]
    is_torn: bool = False


def _scan(segments: Segments, start: int, limit: int, torn_from: int) -> _Scanned:
    """
    Scans up to the first bad record. Only records that no property CRC proves need
    rows: to compare a CRC that differs with those of the neighbours, and to find lost
    sectors above ``torn_from``.
    """
    found = segments.scan_end(start, CHECKS, limit)
    if not found.unproved:
        return _Scanned([found])
    log, check, bad = segments.log, CopiedCrcCheck(), []
    if found.differs:
        for rows in log.scan(start, limit, CHECKS):
            bad += [offset for offset, _ in check.add(rows)]
        bad += [offset for offset, _ in check.finish()]
    torn: list[int] = []
    above = segments.scan_end(start, NO_CHECK, min(torn_from, found.offset)).offset
    if above < found.offset:
        for rows in log.scan(above, found.offset, CHECKS):
            number = rows["offset"] // np.uint64(segments.segment_size)
            for one in np.unique(number):
                torn += torn_records(log, rows[number == one])
    if not bad and not torn:
        return _Scanned([found])
    offset = min(bad + torn)
    below = segments.scan_end(start, CHECKS, offset)
    is_torn = offset in torn
    stop = Stop.ZERO if is_torn else Stop.PROPERTY
    text = "zeros stand where it ends" if is_torn else "its property CRC differs"
    text = f"record at offset {offset}: {text}"
    last = below._replace(stop=stop, text=text, records=0, unproved=0)
    return _Scanned([below, last], is_torn)


def survey_ours(
    segments: Segments, bound: Bound, start: int, limit: int = NO_OFFSET
) -> Survey:
    """
    Check a log with valid bounds.

    Args:
        segments: of the log.
        bound: no record below may be bad.
        start: a record start or a segment's base, at most the bound.
        limit: of an unfinished cut, or an end that is exact (A19): bytes above it
            are not scanned.
    """
    scans, is_torn = _scan(segments, start, limit, bound.offset)
    last = scans[-1]
    if last.stop == Stop.LIMIT:
        last = scans[-1] = last._replace(stop=Stop.ZERO)
        behind = NOTHING
    else:
        behind = look_behind(segments, last.offset, last.stop)
    verdict = decide(_findings(segments, scans, behind=behind, is_torn=is_torn), bound)
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
    segments: Segments, queues: ConsumeQueues, evidence: Evidence
) -> Survey:
    """
    Check all of a log without valid bounds (A8).
    """
    first = segments.bases[0] if segments.bases else 0
    scans, is_torn = _scan(segments, first, NO_OFFSET, evidence.bound)
    last = scans[-1]
    stale = first_stale(segments, queues, evidence, last.offset)
    named = later = None
    behind = NOTHING
    if stale is not None:
        scans = [segments.scan_end(first, CHECKS, stale)]
        last = scans[-1] = scans[-1]._replace(stop=Stop.ZERO)
    if last.stop.is_bad or last.stop == Stop.ZERO:
        named, later = find_above(segments, queues, last.offset, evidence.checkpoint_ms)
    if stale is None:
        behind = look_behind(segments, last.offset, last.stop, queues)
    found = _findings(
        segments,
        scans,
        named=named,
        later=later,
        behind=behind,
        is_stale=stale is not None,
        is_torn=is_torn,
    )
    verdict = decide(found, evidence)
    return Survey(
        verdict=verdict,
        end_offset=verdict.end,
        scanned_from=first,
        scanned_bytes=last.offset - first,
        records=sum(one.records for one in scans),
        unproved=sum(one.unproved for one in scans),
        store_ms=max(one.record_ms for one in scans),
        last_offset=_last_offset(scans, verdict.end),
        text=last.text,
    )


def first_stale(
    segments: Segments, queues: ConsumeQueues, evidence: Evidence, end: int
) -> int | None:
    """
    The offset of the first stale record below ``end``; ``None``: there is none.

    Only records above the last one with a queue entry can be stale, and none below a
    stored end. A queue may have lost its last entries: then the records below say how
    its offsets go on.
    """
    if evidence.stale_above is None or evidence.stale_above >= end:
        return None
    start = max(evidence.stale_above, evidence.stored_end)
    lasts = [queue.last_entry() for queue in queues]
    known = min(0 if last is None else last.offset for last in lasts)
    base = segments.base_of(min(known, start))
    order = QueueOrder(queues, segments.log.topic)
    for rows in segments.log.scan(base, end, Check.OFFSET | Check.TOPIC):
        order.note(rows[rows["offset"] < start])
        stale = order.first_stale(rows[rows["offset"] >= start])
        if stale is not None:
            return stale
    return None


def _last_offset(scans: list[Cursor], end: int) -> int | None:
    found = [s.record_start for s in scans if s.record_start is not None]
    return found[-1] if found and found[-1] < end else None
