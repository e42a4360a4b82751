"""
Whole records in place of a damaged range, so that the log behind it stays.

A filler is a record of a system topic with zeros as body. Its system flag is that of a
rolled back transaction: neither pystore nor RocketMQ gives it a consume queue entry, so
no consumer receives it. At the end of a segment stands a blank record, as always.

Only the log of a single store may be filled: replicas of a set must stay equal.

Source: docs/format.md, message record (formats 1.3).
"""

from __future__ import annotations

import struct
import zlib

from pystore.message.constants import (
    BLANK_SIZE,
    CRC_MASK,
    CRC_NAME,
    CRC_SIZE,
    MAGIC_BLANK,
    MAGIC_V1,
    RECORD_SIZE_MIN,
)

__all__ = ["FILLER_TOPIC", "filler_bytes"]

FILLER_TOPIC = "rmq_sys_filler"
"""RocketMQ refuses clients of topics that begin so."""

_ROLLBACK = 0xC
_HEAD = struct.Struct(">IIIiIqqIq8sq8sIqI")
_HOST = bytes([127, 0, 0, 1]) + bytes(4)
_SIZE_MAX = 1 << 20
_SIZE_MIN = RECORD_SIZE_MIN + len(FILLER_TOPIC) + CRC_SIZE


def filler_bytes(
    start: int, end: int, store_ms: int, *, segment_size: int, property_crc: bool
) -> bytes:
    """
    Returns whole records for a range of the log; empty: it is too small for one.

    Args:
        start: of the range, in one segment.
        end: of it.
        store_ms: the store time of the fillers, that of the record before.
        segment_size: in bytes.
        property_crc: whether the fillers have RocketMQ's property CRC.
    """
    if end % segment_size == 0:
        return _blank(end - start)
    pieces, at = [], start
    while at < end:
        left = end - at
        size = left if left <= _SIZE_MAX else min(_SIZE_MAX, left - _SIZE_MIN)
        if size < _SIZE_MIN:
            return b""
        pieces.append(_record(at, size, store_ms, property_crc=property_crc))
        at += size
    return b"".join(pieces)


def _blank(size: int) -> bytes:
    if size < BLANK_SIZE:
        return b""
    return struct.pack(">II", size, MAGIC_BLANK) + bytes(size - BLANK_SIZE)


def _record(offset: int, size: int, store_ms: int, *, property_crc: bool) -> bytes:
    topic = FILLER_TOPIC.encode()
    crc_size = CRC_SIZE if property_crc else 0
    body = bytes(size - RECORD_SIZE_MIN - len(topic) - crc_size)
    head = _HEAD.pack(
        size,
        MAGIC_V1,
        zlib.crc32(body) & CRC_MASK,
        0,  # queue id
        0,  # flag
        0,  # queue offset: it is of no queue
        offset,
        _ROLLBACK,
        store_ms,
        _HOST,
        store_ms,
        _HOST,
        0,  # reconsume times
        0,  # offset of the prepared record
        len(body),
    )
    record = head + body + bytes([len(topic)]) + topic + struct.pack(">H", crc_size)
    if not property_crc:
        return record
    digits = f"{zlib.crc32(record) & CRC_MASK:010d}"[::-1]
    return record + f"{CRC_NAME}\x01{digits}\x02".encode()
