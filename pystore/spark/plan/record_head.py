"""
Reads the heads of records in many files, without read-ahead by the system.

Read-ahead would read megabytes for a few bytes. The results are hints only: a record
that is damaged or cannot be read has no head.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pystore.fs.layout import segment_path
from pystore.message.constants import (
    AT_BODY,
    AT_STORE_MS,
    MAGIC_V1,
    MAGIC_V2,
    born_host_size,
    store_host_size,
)

__all__ = [
    "RecordHead",
    "open_without_readahead",
    "read_record_head",
    "read_segment_bytes",
]

_MAGICS = {MAGIC_V1: 1, MAGIC_V2: 2}
"""Magic codes of records, with the size of the topic's length field."""

_HEAD = struct.Struct(">II4xi4xqQI")  # up to the system flag
_HEAD_BYTES = 128


class RecordHead(NamedTuple):
    """
    The fields of a record that plans need.
    """

    topic: str
    queue_id: int
    queue_offset: int
    store_ms: int
    size: int


@contextmanager
def open_without_readahead(path: Path) -> Iterator[int]:
    """
    Opens a file for reading, without read-ahead, and yields its descriptor.

    Raises:
        OSError: the system refused.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        yield descriptor
    finally:
        os.close(descriptor)


def read_segment_bytes(store: Path, base: int, offset: int, size: int) -> bytes:
    """
    Returns bytes of a segment, fewer at the end of the file.

    Args:
        store: root of the store.
        base: base offset of the segment.
        offset: of the first byte in the log.
        size: number of bytes.

    Raises:
        OSError: the system refused.
    """
    with open_without_readahead(segment_path(store, base)) as descriptor:
        return os.pread(descriptor, size, offset - base)


def read_record_head(store: Path, base: int, offset: int) -> RecordHead | None:
    """
    Returns the head of a record; ``None``: there is no record, or it is unreadable.

    Args:
        store: root of the store.
        base: base offset of the segment.
        offset: of the record in the log.
    """
    try:
        head = read_segment_bytes(store, base, offset, _HEAD_BYTES)
        size, magic, queue_id, queue_offset, stored_offset, flags = _HEAD.unpack_from(
            head
        )
        if magic not in _MAGICS or stored_offset != offset:
            return None
        born = born_host_size(flags)
        hosts = born + store_host_size(flags)
        store_ms = int.from_bytes(
            head[AT_STORE_MS + born : AT_STORE_MS + born + 8], signed=True
        )
        body_at = AT_BODY + hosts
        at = body_at + int.from_bytes(head[body_at - 4 : body_at])
        width = _MAGICS[magic]
        if at + width > size:
            return None
        tail = read_segment_bytes(store, base, offset + at, min(size - at, 256))
    except (OSError, struct.error):
        # Deleted, truncated or unreadable: the task that reads it reports it.
        return None
    topic = tail[width : width + int.from_bytes(tail[:width])]
    name = topic.decode("utf-8", "surrogateescape")
    return RecordHead(name, queue_id, queue_offset, store_ms, size)
