"""
Frames for the next queue offsets of a log, and the pages of such a table. Pure.

A log that begins above 0 does not have the records from which the next number of a
quiet queue follows, so a master hands the table over before the first byte (A20). The
table may have any length: the slave queries it page by page. The slave's side is
`pystore.ha.slave.queue_query`.

Source: docs/protocol.md (RMQ-K.3, QUERY_QUEUES and RETURN_QUEUES).
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from pystore.errors import InvalidError, RemoteViolation
from pystore.ha.wire.codes import HEADER_BYTES, QueuesFlag
from pystore.ha.wire.frames import NextQueueOffset, QueryQueues, ReturnQueues

__all__ = [
    "QueueSnapshot",
    "decode_query",
    "decode_return",
    "encode_query",
    "encode_return",
    "queue_page",
]

_QUERY = struct.Struct(">qq")
_RETURN = struct.Struct(">qqqqqiiI")
_TOPIC = struct.Struct(">H")
_NUMBERS = struct.Struct(">iq")
_ERRORS = "surrogateescape"  # a topic of RocketMQ may have any bytes


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """
    The next queue offsets as of the first byte that a slave gets.

    Attributes:
        min_offset: where the master's log begins.
        start_offset: of that byte.
        entries: one for each queue with a number above 0, in any order.
    """

    min_offset: int
    start_offset: int
    entries: tuple[NextQueueOffset, ...]


def queue_page(
    snapshot: QueueSnapshot, first: int, session_id: int, frame_bytes_max: int
) -> ReturnQueues:
    """
    Returns the page that was asked for.

    Args:
        snapshot: of the master's log.
        first: the number of entries that the slave has.
        session_id: of the session.
        frame_bytes_max: the longest frame of the session.

    Raises:
        RemoteViolation: the table has fewer entries.
        InvalidError: an entry does not fit into a frame.
    """
    if not 0 <= first <= len(snapshot.entries):
        raise RemoteViolation(
            f"a query for queue {first} of a table of {len(snapshot.entries)} queues"
        )
    room = frame_bytes_max - HEADER_BYTES - _RETURN.size
    last = first
    for entry in snapshot.entries[first:]:
        room -= _entry_bytes(entry)
        if room < 0:
            break
        last += 1
    if last == first < len(snapshot.entries):
        raise InvalidError(
            f"the queue offset of topic {snapshot.entries[first].topic[:64]!r} does "
            f"not fit into a frame of {frame_bytes_max} bytes"
        )
    return ReturnQueues(
        session_id,
        snapshot.min_offset,
        snapshot.start_offset,
        len(snapshot.entries),
        first,
        QueuesFlag.MORE if last < len(snapshot.entries) else QueuesFlag(0),
        snapshot.entries[first:last],
    )


def _entry_bytes(entry: NextQueueOffset) -> int:
    return _TOPIC.size + len(entry.topic.encode("utf-8", _ERRORS)) + _NUMBERS.size


def encode_query(body: QueryQueues) -> bytes:
    """
    Returns the bytes of a QUERY_QUEUES without its header.
    """
    return _QUERY.pack(body.session_id, body.first)


def decode_query(payload: memoryview) -> QueryQueues:
    """
    Returns the body of a QUERY_QUEUES.
    """
    return QueryQueues(*_QUERY.unpack_from(payload))


def encode_return(body: ReturnQueues) -> bytes:
    """
    Returns the bytes of a RETURN_QUEUES without its header.
    """
    parts: list[bytes] = []
    for topic, queue_id, next_offset in body.entries:
        raw = topic.encode("utf-8", _ERRORS)
        parts += (_TOPIC.pack(len(raw)), raw, _NUMBERS.pack(queue_id, next_offset))
    entries = b"".join(parts)
    head = _RETURN.pack(
        body.session_id,
        body.min_offset,
        body.start_offset,
        body.entries_total,
        body.first,
        len(body.entries),
        body.flags,
        zlib.crc32(entries),
    )
    return head + entries


def decode_return(payload: memoryview) -> ReturnQueues:
    """
    Returns the body of a RETURN_QUEUES.

    Raises:
        RemoteViolation: the entries do not match their checksum.
    """
    session, minimum, start, total, first, count, flags, crc = _RETURN.unpack_from(
        payload
    )
    raw = bytes(payload[_RETURN.size :])
    entries: list[NextQueueOffset] = []
    at = 0
    if count < 0:
        raise RemoteViolation(f"RETURN_QUEUES has {count} entries by its count")
    for _ in range(count):
        (size,) = _TOPIC.unpack_from(raw, at)
        at += _TOPIC.size
        topic = raw[at : at + size].decode("utf-8", _ERRORS)
        at += size
        entries.append(NextQueueOffset(topic, *_NUMBERS.unpack_from(raw, at)))
        at += _NUMBERS.size
    if zlib.crc32(raw[:at]) != crc:
        raise RemoteViolation("RETURN_QUEUES: the checksum of its entries differs")
    known = QueuesFlag(flags & QueuesFlag.MORE)
    return ReturnQueues(session, minimum, start, total, first, known, tuple(entries))
