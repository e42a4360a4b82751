"""
Finds the first byte in which two copies of a segment differ.

For a block that differs, each side returns the digests of the block's pages, then the
bytes of the first page that differs. So stores on different hosts can be compared,
and few bytes travel.
"""

from __future__ import annotations

from dataclasses import dataclass

import xxhash

from pystore.core.segment_view import open_view
from pystore.errors import PystoreError
from pystore.seals import BLOCK_BYTES

__all__ = ["PAGE_BYTES", "BlockTask", "PageDigests", "first_difference", "read_pages"]

PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class BlockTask:
    """
    A range of one copy to read.

    Attributes:
        store: root of the store.
        base: of the segment.
        start: offset of the first byte in the log.
        end: offset after the last byte.
        is_raw: whether to return the bytes; else the digests of their pages.
    """

    store: str
    base: int
    start: int
    end: int
    is_raw: bool = False


@dataclass(frozen=True, slots=True)
class PageDigests:
    """
    The content of a range of one copy.

    Attributes:
        task: whose result this is.
        digests: XXH3-64 of each page of 4 KiB.
        raw: the bytes, if the task asked for them.
        error: why the range cannot be read; empty: it was read.
    """

    task: BlockTask
    digests: tuple[int, ...] = ()
    raw: bytes = b""
    error: str = ""


def block_range(base: int, index: int, end: int) -> tuple[int, int]:
    """
    Returns the offsets ``[start, above)`` of a block of a segment.
    """
    start = base + index * BLOCK_BYTES
    return start, min(start + BLOCK_BYTES, end)


def read_pages(task: BlockTask) -> PageDigests:
    """
    Reads a range of one copy. Runs on an executor.
    """
    try:
        with open_view(task.store, [task.base]) as log:
            view = log.acquire(task.start, task.end - task.start)
            if task.is_raw:
                return PageDigests(task, raw=bytes(view))
            digests = tuple(
                xxhash.xxh3_64_intdigest(view[at : at + PAGE_BYTES])
                for at in range(0, len(view), PAGE_BYTES)
            )
            return PageDigests(task, digests)
    except (PystoreError, OSError) as error:
        # The verdict stays; only the place of the difference is unknown.
        return PageDigests(task, error=" ".join(str(error).split("\n")))


def first_difference(one: bytes, other: bytes) -> int | None:
    """
    Returns the index of the first byte that differs, ``None`` if none does.
    """
    for index, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return index
    return None if len(one) == len(other) else min(len(one), len(other))
