"""
Where does the log end? Scans of the segments, weighed against what is known.

Two ways lead to a verdict. Where our own bounds hold, the scan begins in the
segment of the synced end and nothing below the bound may be bad (A5, A6). Where
they are void, or never were, every record is scanned and RocketMQ's evidence
decides (A8).

Rules: docs/crash-safety.md, A5 to A8.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from pystore.bindings.ffi import NO_CHECK, NO_OFFSET, Check, Stop
from pystore.consumequeue.queues import ConsumeQueues
from pystore.core.log_reader import LogReader
from pystore.core.results import Cursor
from pystore.errors import OffsetOutOfRange
from pystore.recovery.rocketmq import Opening, behind, gather_evidence
from pystore.recovery.torn_tail import Bound, Evidence, Findings, Verdict, decide

__all__ = [
    "Segments",
    "Survey",
    "last_record",
    "nonzero_end",
    "survey_evidence",
    "survey_ours",
]

# One proof of the body is enough to tell torn from whole; `verify` asks for both.
CHECKS = Check.BODY | Check.PROPERTY | Check.OFFSET | Check.ONCE
_CHUNK = 1 << 20
_ZEROS = bytes(_CHUNK)


class Segments:
    """
    A log handle as `pystore.recovery.rocketmq` reads it: whole segments, nothing else.
    """

    def __init__(self, log: LogReader) -> None:
        self.log = log
        self._bases = log.segments()
        self._size = log.ends().segment_size

    @property
    def bases(self) -> Sequence[int]:
        """
        Base offsets of the segments, ascending.
        """
        return self._bases

    @property
    def stranded(self) -> Sequence[int]:
        """
        Base offsets of the segments behind a missing one, which hold nothing and are
        no part of the log.
        """
        return self.log.stranded()

    @property
    def segment_size(self) -> int:
        """
        Of every segment, in bytes.
        """
        return self._size

    @property
    def end(self) -> int:
        """
        The end of the last segment; 0 without any.
        """
        return self._bases[-1] + self._size if self._bases else 0

    def base_of(self, offset: int) -> int:
        """
        The base of the segment that holds an offset (or ends at it, if it is the
        last).
        """
        if not self._bases:
            return offset
        index = (offset - self._bases[0]) // self._size
        return self._bases[max(0, min(index, len(self._bases) - 1))]

    def raw(self, offset: int, size: int) -> bytes:
        """
        Up to ``size`` bytes from ``offset``, within its segment.
        """
        if size <= 0:
            return b""
        try:
            return bytes(self.log.acquire(offset, size))
        except OffsetOutOfRange:
            # Nothing is there: as short as it gets.
            return b""

    def scan_end(self, offset: int, checks: Check, limit: int = NO_OFFSET) -> Cursor:
        """
        Scans from ``offset`` until something but full rows stops it.
        """
        return self.log.scan(offset, limit, checks).finish()

    def rows(self, offset: int, checks: Check) -> Iterator[NDArray[Any]]:
        """
        The same, for the rows.
        """
        return self.log.scan(offset, NO_OFFSET, checks)


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
    segments: Segments, queues: ConsumeQueues, opening: Opening
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


def last_record(segments: Segments, end: int) -> tuple[int, int] | None:
    """
    Offset and store time of the last record below ``end``, found segment by segment
    from behind.
    """
    for base in reversed(segments.bases):
        if base < end:
            found = segments.scan_end(base, NO_CHECK, end)
            if found.record_start is not None:
                return found.record_start, found.record_ms
    return None


def nonzero_end(root: Path, segments: Segments, end: int) -> int:
    """
    Where the last byte above ``end`` stands that is not zero, exclusive; ``end``
    if there is none. What a cut at ``end`` takes away.
    """
    found = end
    for base in segments.bases:
        if base + segments.segment_size <= end:
            continue
        at = max(0, end - base)
        path = root / "commitlog" / f"{base:020d}"
        last = _last_nonzero(path, at, segments.segment_size)
        if last > at:
            found = base + last
    return found


def _last_nonzero(path: Path, at: int, size: int) -> int:
    """
    Reads only what the file system calls data: a new segment is one large hole.
    """
    last = at
    descriptor = os.open(path, os.O_RDONLY)
    try:
        start = at
        while start < size:
            try:
                data = os.lseek(descriptor, start, os.SEEK_DATA)
                hole = os.lseek(descriptor, data, os.SEEK_HOLE)
            except OSError:
                # ENXIO: only a hole follows.
                break
            while data < min(hole, size):
                chunk = os.pread(descriptor, min(_CHUNK, min(hole, size) - data), data)
                if not chunk:
                    return last
                # Comparing is 30 times faster than stripping, and most is zero.
                if chunk != _ZEROS[: len(chunk)]:
                    last = data + len(chunk.rstrip(b"\0"))
                data += len(chunk)
            start = hole
    finally:
        os.close(descriptor)
    return last
