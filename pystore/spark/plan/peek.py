"""
A look at few bytes of many files, a page of each: without the system reading ahead,
which would bring in megabytes where some bytes are asked for.

Only for hints. What is not a record, or cannot be read, is nobody's answer.
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

__all__ = ["RecordHead", "open_for_peeks", "peek_bytes", "peek_record"]

_MAGICS = {MAGIC_V1: 1, MAGIC_V2: 2}
"""Of a record, with the bytes of its topic's length."""

_HEAD = struct.Struct(">II4xi4xqQI")  # up to the system flag
_HEAD_BYTES = 128


class RecordHead(NamedTuple):
    """
    What a record says of itself.
    """

    topic: str
    queue_id: int
    queue_offset: int
    store_ms: int
    size: int


@contextmanager
def open_for_peeks(path: Path) -> Iterator[int]:
    """
    Yields a descriptor of a file; what is read of it is brought in, and nothing else.

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


def peek_bytes(store: Path, base: int, offset: int, size: int) -> bytes:
    """
    Returns bytes of a segment, fewer where the file ends.

    Args:
        store: root.
        base: of the segment.
        offset: of the first byte, in the log.
        size: how many.

    Raises:
        OSError: the system refused.
    """
    with open_for_peeks(segment_path(store, base)) as descriptor:
        return os.pread(descriptor, size, offset - base)


def peek_record(store: Path, base: int, offset: int) -> RecordHead | None:
    """
    Returns what the record at an offset says; ``None``: there is none, or nobody
    knows.

    Args:
        store: root.
        base: of the segment.
        offset: of the record.
    """
    try:
        head = peek_bytes(store, base, offset, _HEAD_BYTES)
        size, magic, queue_id, queue_offset, said, flags = _HEAD.unpack_from(head)
        if magic not in _MAGICS or said != offset:
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
        tail = peek_bytes(store, base, offset + at, min(size - at, 256))
    except (OSError, struct.error):
        # Deleted, cut short or unreadable: whoever reads it says so.
        return None
    topic = tail[width : width + int.from_bytes(tail[:width])]
    name = topic.decode("utf-8", "surrogateescape")
    return RecordHead(name, queue_id, queue_offset, store_ms, size)
