"""
RocketMQ's recovery of a log, computed without a change.

It has two uses: the end that RocketMQ would find is shown beside pystore's, and the
start of its recovery is evidence for a torn tail (A8).

RocketMQ 5.3 starts in one file, chosen by consume queues or by checkpoint times, and
reads records until one is bad. It checks less than pystore: not the embedded offset,
and one kind of checksum only. So the scan checks that kind, and at its stop the bytes
are checked again by RocketMQ's rule: an accepted record is skipped, and the scan
continues after it.

Source: docs/format.md, record checking and start-up (RocketMQ 5.3.3:
``CommitLog``, ``DefaultMessageStore``).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pystore.bindings.ffi import NO_OFFSET, Check, Stop
from pystore.consumequeue.queues import ConsumeQueues
from pystore.message.constants import (
    AT_BODY,
    AT_OFFSET,
    AT_STORE_MS,
    AT_SYS_FLAG,
    CRC_MASK,
    CRC_NAME,
    CRC_SIZE,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_SIZE_MIN,
    born_host_size,
    store_host_size,
)
from pystore.message.properties import parse_properties
from pystore.recovery.torn_tail import Evidence
from pystore.rocketmq.checkpoint_file import CheckpointTimes

__all__ = [
    "LogView",
    "RocketmqEvidence",
    "ScanEnd",
    "find_above",
    "gather_evidence",
    "rocketmq_end",
    "start_offset",
]

_WHOLE = Check.BODY | Check.PROPERTY | Check.OFFSET


class ScanEnd(Protocol):
    """
    The end of a scan: the fields of `pystore.core.results.Cursor` that are used here.
    """

    @property
    def offset(self) -> int:
        """
        The offset of the stop.
        """
        ...

    @property
    def stop(self) -> int:
        """
        The reason, a `Stop`.
        """
        ...

    @property
    def record_start(self) -> int | None:
        """
        The last whole record; ``None``: no record.
        """
        ...

    @property
    def record_end(self) -> int | None:
        """
        Its end.
        """
        ...


class LogView(Protocol):
    """
    The whole segments of a log, with any content.
    """

    @property
    def bases(self) -> Sequence[int]:
        """
        Base offsets of the segments, ascending.
        """
        ...

    @property
    def segment_size(self) -> int:
        """
        Of every segment, in bytes.
        """
        ...

    def raw(self, offset: int, size: int) -> bytes:
        """
        Up to ``size`` bytes from ``offset``, within its segment.
        """
        ...

    def scan_end(self, offset: int, checks: Check, limit: int = NO_OFFSET) -> ScanEnd:
        """
        Scans from ``offset`` to the stop, without rows.
        """
        ...

    def rows(self, offset: int, checks: Check) -> Iterator[NDArray[Any]]:
        """
        As `scan_end`, with rows.
        """
        ...


@dataclass(frozen=True, slots=True)
class RocketmqEvidence:
    """
    The facts that RocketMQ uses before its scan.

    Attributes:
        is_abort: whether ``abort`` is there.
        times: of ``checkpoint``; without the file, all 0.
        dispatch_point: the end of the last record with a queue entry; -1: no record.
        is_index_safe: ``messageIndexEnable`` and ``messageIndexSafe``.
        force_property_crc: ``forceVerifyPropCRC``.
        check_crc: ``checkCRCOnRecover``.
        segments_max: ``commitLogRecoverMaxNum`` of RocketMQ 5.5; 0: no limit, as in
            RocketMQ 5.3.
    """

    is_abort: bool
    times: CheckpointTimes = field(default_factory=CheckpointTimes)
    dispatch_point: int = -1
    is_index_safe: bool = False
    force_property_crc: bool = False
    check_crc: bool = True
    segments_max: int = 0

    @property
    def checks(self) -> Check:
        """
        The checks of RocketMQ's scan beyond the structure.
        """
        if not self.check_crc:
            return Check(0)
        if self.force_property_crc:
            return Check.PROPERTY | Check.NEED_PROPERTY
        return Check.BODY


def start_offset(log: LogView, opening: RocketmqEvidence) -> int:
    """
    Returns the start of RocketMQ's recovery: the base of a segment; 0 without any.

    After a clean stop it is the newest segment that begins at or below the dispatch
    point; otherwise the newest one with a first record that the checkpoint covers, by
    its offset (RocketMQ 5.5.0) or by its times; else the oldest. RocketMQ 5.5 looks at
    the newest segments only.
    """
    for count, base in enumerate(reversed(log.bases), 1):
        if count == opening.segments_max:
            return base
        if opening.is_abort:
            if _is_covered(log.raw(base, 76), base, opening):
                return base
        elif base <= opening.dispatch_point:
            return base
    return log.bases[0] if log.bases else 0


def _is_covered(head: bytes, base: int, opening: RocketmqEvidence) -> bool:
    if len(head) < 76 or int.from_bytes(head[4:8], "big") not in (MAGIC_V1, MAGIC_V2):
        return False
    sys_flag = int.from_bytes(head[AT_SYS_FLAG : AT_SYS_FLAG + 4], "big")
    at = AT_STORE_MS + born_host_size(sys_flag)
    store_ms = int.from_bytes(head[at : at + 8], "big", signed=True)
    times = opening.times
    if times.logics_offset:  # of RocketMQ 5.5.0 or newer
        return store_ms != 0 and base <= times.logics_offset
    newest = times.min_index_ms if opening.is_index_safe else times.min_ms
    return store_ms != 0 and store_ms <= newest


def rocketmq_end(
    log: LogView, opening: RocketmqEvidence, stranded: int | None = None
) -> int:
    """
    Returns the end of the log that RocketMQ would find: its maximum offset.

    Args:
        log: without the segments after a gap.
        opening: the evidence.
        stranded: base of the first segment after a gap: RocketMQ reads it as the next
            segment, and finds no record in it.

    In controller mode the end is the same: the confirm offset limits the records that
    RocketMQ dispatches, not those that it keeps. If its loading fails later (formats
    1.9: a V2 record above the confirm offset), this is the end that it found before.
    """
    if not log.bases:
        return 0
    offset, last_base = start_offset(log, opening), log.bases[-1]
    while True:
        tail = log.scan_end(offset, opening.checks)
        end, base = tail.offset, tail.offset - tail.offset % log.segment_size
        if tail.stop == Stop.LAST:
            # No segment follows the last one: the end is that of the last record,
            # or the base of the segment.
            record_end = tail.record_end if tail.record_start is not None else 0
            if stranded is not None:
                return stranded
            return max(last_base, record_end or 0, offset)
        size = _accepted_size(log, end, base + log.segment_size - end, opening)
        if size is None:
            return end
        if size == 0 and base == last_base:
            return end if stranded is None else stranded
        offset = end + size if size else base + log.segment_size


def _accepted_size(
    log: LogView, offset: int, left: int, opening: RocketmqEvidence
) -> int | None:
    """
    Checks the bytes at the start of a record as ``checkMessageAndReturnSize`` does.

    Returns:
        The record's size; 0 for a blank record; ``None`` if they are bad.
    """
    head = log.raw(offset, 8)
    size = int.from_bytes(head[:4], "big", signed=True)
    if len(head) < 8 or size > left:
        return None
    if int.from_bytes(head[4:], "big") == MAGIC_BLANK:
        return 0
    data = log.raw(offset, max(0, size))
    parts = _parts_of(data)
    if parts is None:
        return None
    if not opening.check_crc:
        is_good = True
    elif opening.force_property_crc:
        is_good = _is_property_crc_right(data, parts.properties)
    else:
        is_good = not parts.body or zlib.crc32(parts.body) & CRC_MASK == parts.crc
    return size if is_good else None


class _Parts(NamedTuple):
    body: bytes
    crc: int
    properties: bytes


def _parts_of(data: bytes) -> _Parts | None:
    """
    Returns the parts of a record; ``None`` if its lengths do not add up to its size.
    As in RocketMQ, a negative length of body or properties counts as 0.
    """
    versions = {MAGIC_V1: (1, ">b"), MAGIC_V2: (2, ">h")}
    magic = int.from_bytes(data[4:8], "big")
    if magic not in versions:
        return None
    topic_bytes, topic_form = versions[magic]
    try:
        body_crc, sys_flag = struct.unpack_from(">i24xI", data, 8)
        hosts = born_host_size(sys_flag) + store_host_size(sys_flag)
        at = AT_BODY - 4 + hosts
        (body_size,) = struct.unpack_from(">i", data, at)
        body_at = at + 4
        at = body_at + max(0, body_size)
        (topic_size,) = struct.unpack_from(topic_form, data, at)
        properties_at = at + topic_bytes + topic_size + 2
        (properties_size,) = struct.unpack_from(">h", data, properties_at - 2)
    except struct.error:
        # A length is larger than the record.
        return None
    if topic_size < 0 or properties_at + max(0, properties_size) != len(data):
        return None
    return _Parts(data[body_at:at], body_crc, data[properties_at:])


def _is_property_crc_right(record: bytes, raw: bytes) -> bool:
    digits = parse_properties(raw).get(CRC_NAME)
    if digits is None:
        return False
    expected = 0
    for digit in reversed(digits):
        expected = expected * 10 + ord(digit) - ord("0")
    return zlib.crc32(record[:-CRC_SIZE]) & CRC_MASK == expected


def gather_evidence(
    log: LogView, queues: ConsumeQueues, opening: RocketmqEvidence
) -> Evidence:
    """
    Collects the evidence about the end of the log (A8).
    """
    named = _last_named(log, queues)
    return Evidence(
        is_abort=opening.is_abort,
        start_offset=start_offset(log, opening),
        named_offset=named[0] if named else None,
        named_end=named[1] if named else None,
        checkpoint_ms=opening.times.physic_ms,
    )


def _last_named(log: LogView, queues: ConsumeQueues) -> tuple[int, int] | None:
    """
    Offset and end of the last record that consume queues name, as far as it is proven:
    the record begins there, or two entries agree that the log went so far. One entry
    alone may be damaged.
    """
    entries = sorted(set(queues.last_entries(2)), reverse=True)
    witness: tuple[int, int] | None = None
    for offset, size in entries:
        head = log.raw(offset, AT_OFFSET + 8) if offset >= 0 else b""
        if (
            int.from_bytes(head[:4], "big") == size
            and int.from_bytes(head[4:8], "big") in (MAGIC_V1, MAGIC_V2)
            and int.from_bytes(head[AT_OFFSET:], "big") == offset
        ):
            return offset, offset + size
        if not RECORD_SIZE_MIN <= size <= log.segment_size:
            continue
        if witness is not None and offset + size <= witness[0]:
            return offset, offset + size
        witness = offset, offset + size
    return None


def find_above(
    log: LogView, queues: ConsumeQueues, offset: int, checkpoint_ms: int
) -> tuple[int | None, int | None]:
    """
    Finds records above the stop of a scan that forbid a cut there (A8).

    It scans from one record with a queue entry to the next damage, so its time is that
    of one scan, not of one read for each entry.

    Args:
        log: of the store.
        queues: of the same store.
        offset: of the stop.
        checkpoint_ms: `Evidence.checkpoint_ms`.

    Returns:
        The two last fields of `pystore.recovery.torn_tail.Findings`.
    """
    later = next(
        (b for b in log.bases if b > offset and _is_whole(log, b)),
        None,
    )
    named = queues.named_above(offset)
    at = 0
    while at < len(named):
        next_offset = int(named[at])
        if next_offset > log.bases[-1] + log.segment_size:
            break
        for rows in log.rows(next_offset, _WHOLE):
            offsets = rows["offset"].astype(np.int64)
            found = np.isin(offsets, named) & (rows["store_ms"] <= checkpoint_ms)
            if found.any():
                return int(offsets[found.argmax()]), later
            if len(offsets):
                next_offset = int(offsets[-1])
        at = int(np.searchsorted(named, next_offset, side="right"))
    return None, later


def _is_whole(log: LogView, offset: int) -> bool:
    size = int.from_bytes(log.raw(offset, 4), "big", signed=True)
    if size <= 0:
        return False
    return log.scan_end(offset, _WHOLE, offset + size).record_start is not None
