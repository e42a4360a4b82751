"""
Queue form: how the table of next queue offsets crosses the seam. Pure.

Source: csrc/pystore.h, queue form.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from pystore.errors import InvalidError

__all__ = ["pack_queues", "parse_queues"]

_TOPIC_SIZE = struct.Struct(">H")
_QUEUE = struct.Struct(">iq")

# A topic in a log may be any bytes; here it must come back as it was.
_ERRORS = "surrogateescape"


def pack_queues(queues: Mapping[tuple[str, int], int]) -> bytes:
    """
    Returns the queue form of (topic, queue id) -> next queue offset.

    Raises:
        InvalidError: a number or a topic that does not fit.
    """
    parts: list[bytes] = []
    for (topic, queue_id), next_offset in queues.items():
        raw = topic.encode("utf-8", _ERRORS)
        try:
            size, numbers = (
                _TOPIC_SIZE.pack(len(raw)),
                _QUEUE.pack(queue_id, next_offset),
            )
        except struct.error as error:  # the number is not known to it
            text = f"queue {queue_id} of topic {topic!r} with next offset {next_offset}"
            raise InvalidError(f"{text} does not fit: {error}") from error
        parts += (size, raw, numbers)
    return b"".join(parts)


def parse_queues(raw: bytes) -> dict[tuple[str, int], int]:
    """
    Returns (topic, queue id) -> next queue offset of a queue form.

    Raises:
        InvalidError: it ends early.
    """
    queues = {}
    at = 0
    try:
        while at < len(raw):
            (size,) = _TOPIC_SIZE.unpack_from(raw, at)
            at += _TOPIC_SIZE.size
            topic = raw[at : at + size].decode("utf-8", _ERRORS)
            at += size
            queue_id, queues_next = _QUEUE.unpack_from(raw, at)
            at += _QUEUE.size
            queues[topic, queue_id] = queues_next
    except struct.error as error:
        raise InvalidError(f"queue form of {len(raw)} bytes ends early") from error
    return queues
