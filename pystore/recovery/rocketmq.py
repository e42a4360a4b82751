"""
What RocketMQ itself would make of a log at opening, without doing it.

Two uses: the end that it would find is shown beside ours, and where its
recovery would start is evidence for what may be torn (A8).

RocketMQ 5.3 starts in one file, chosen by consume queues or by checkpoint
times, and reads on while records look right. It checks less than we do: not the
embedded offset, and of checksums only one kind. So the log's own scan runs with
that kind alone, and where it stops, the bytes are judged again by RocketMQ's
rule: what that accepts is passed over, and the scan goes on behind it.

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
    AT_STORE_MS,
    AT_SYS_FLAG,
    CRC_MASK,
    CRC_NAME,
    CRC_SIZE,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
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
    "behind",
    "gather_evidence",
    "rocketmq_end",
    "start_offset",
]

_WHOLE = Check.BODY | Check.PROPERTY | Check.OFFSET


class ScanEnd(Protocol):
    """
    How a scan ended: `pystore.core.results.Cursor`, as far as it is read here.
    """

    @property
    def offset(self) -> int:
        """
        Where it stopped.
        """
        ...

    @property
    def stop(self) -> int:
        """
        Why: a `Stop`.
        """
        ...

    @property
    def record_start(self) -> int | None:
        """
        The last whole record, ``None`` if there was none.
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
    A log as far as it is read here: all segments, whatever they hold.
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
        Scans from ``offset`` until something stops it, for that alone.
        """
        ...

    def rows(self, offset: int, checks: Check) -> Iterator[NDArray[Any]]:
        """
        The same, for the rows.
        """
        ...


@dataclass(frozen=True, slots=True)
class RocketmqEvidence:
    """
    What RocketMQ looks at before it scans.

    Attributes:
        is_abort: whether ``abort`` is there.
        times: of ``checkpoint``; without the file, all 0.
        dispatch_point: where the last record named by consume queues ends; -1 if
            there is none.
        is_index_safe: ``messageIndexEnable`` and ``messageIndexSafe``.
        force_property_crc: ``forceVerifyPropCRC``.
        check_crc: ``checkCRCOnRecover``.
    """

    is_abort: bool
    times: CheckpointTimes = field(default_factory=CheckpointTimes)
    dispatch_point: int = -1
    is_index_safe: bool = False
    force_property_crc: bool = False
    check_crc: bool = True

    @property
    def checks(self) -> Check:
        """
        What RocketMQ's scan checks beyond the structure.
        """
        if not self.check_crc:
            return Check(0)
        if self.force_property_crc:
            return Check.PROPERTY | Check.NEED_PROPERTY
        return Check.BODY


def start_offset(log: LogView, opening: RocketmqEvidence) -> int:
    """
    Returns where RocketMQ's recovery would start: a segment's base; 0 without any.

    After a clean stop: the newest segment that begins at or below the dispatch
    point. Otherwise: the newest whose first record is as old as the checkpoint
    vouches for. Else the oldest.
    """
    for base in reversed(log.bases):
        if opening.is_abort:
            if _is_vouched_for(log.raw(base, 76), opening):
                return base
        elif base <= opening.dispatch_point:
            return base
    return log.bases[0] if log.bases else 0


def _is_vouched_for(head: bytes, opening: RocketmqEvidence) -> bool:
    if len(head) < 76 or int.from_bytes(head[4:8], "big") not in (MAGIC_V1, MAGIC_V2):
        return False
    sys_flag = int.from_bytes(head[AT_SYS_FLAG : AT_SYS_FLAG + 4], "big")
    at = AT_STORE_MS + born_host_size(sys_flag)
    store_ms = int.from_bytes(head[at : at + 8], "big", signed=True)
    times = opening.times
    newest = times.min_index_ms if opening.is_index_safe else times.min_ms
    return store_ms != 0 and store_ms <= newest


def rocketmq_end(
    log: LogView, opening: RocketmqEvidence, stranded: int | None = None
) -> int:
    """
    Returns the end of the log that RocketMQ would find: its maximum offset.

    Args:
        log: without what stands behind a gap.
        opening: what else RocketMQ looks at.
        stranded: where the first segment behind a gap begins: RocketMQ takes it for
            the next one, and finds nothing in it.

    In controller mode it is the same: the confirm offset bounds what RocketMQ
    dispatches, not what it keeps. Where its loading fails afterwards (formats 1.9:
    a V2 record above the confirm offset), this is the end it had found until then.
    """
    if not log.bases:
        return 0
    offset, last_base = start_offset(log, opening), log.bases[-1]
    while True:
        tail = log.scan_end(offset, opening.checks)
        end, base = tail.offset, tail.offset - tail.offset % log.segment_size
        if tail.stop == Stop.LAST:
            # Behind the last segment there is nothing to jump to: the end stays
            # that of the last record, or the segment's base.
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
    Judges the bytes at a record's start as ``checkMessageAndReturnSize`` does.

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
    Takes a record apart; ``None`` if its lengths do not add up to its size. As in
    RocketMQ a negative body or properties length counts as 0.
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
        # The lengths lead out of the record, so they cannot add up to its size.
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
    Collects what the store shows about where its log may be torn (A8).
    """
    named = queues.last_named()
    return Evidence(
        is_abort=opening.is_abort,
        start_offset=start_offset(log, opening),
        named_offset=named[0] if named else None,
        named_end=named[1] if named else None,
        checkpoint_ms=opening.times.physic_ms,
    )


def behind(
    log: LogView, queues: ConsumeQueues, offset: int, checkpoint_ms: int
) -> tuple[int | None, int | None]:
    """
    Looks above the place where a scan stopped for what forbids to cut there (A8).

    Reads on from one named record to the next damage, so that its time is that of a
    scan, not of a look-up for each entry.

    Args:
        log: to look into.
        queues: of the same store.
        offset: where the scan stopped.
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
