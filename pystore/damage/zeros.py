"""
Zeros as the sign of an unfinished write.

A crash loses whole sectors of 512 bytes: every byte above the end of a log was zero
before the write (A2), so a lost sector reads as zeros, and one that was written before
in part ends in zeros. A record is torn if one of its sectors is zero (A6); a bad record
without zeros where a sector ends was changed later.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["SECTOR", "has_lost_sector", "has_unwritten_end"]

SECTOR = 512
"""The unit of a write that a disk does whole or not at all, in bytes."""


def has_lost_sector(blocks: Iterable[bytes | memoryview], start: int, end: int) -> bool:
    """
    Returns whether the part of ``[start, end)`` in some sector is all zero.

    The last part may be a few bytes that are zero by content, like the length of no
    properties. It counts only if the rest of its sector is zero, too.

    Args:
        blocks: the bytes from *start* to the end of the sector of the last byte, in
            any pieces; fewer if the file ends there.
        start: offset in the log; segments begin at multiples of a sector.
        end: exclusive.
    """
    at, is_zero = start, True
    for block in blocks:
        view = memoryview(block)
        while view:
            left = SECTOR - at % SECTOR
            piece = view[:left]
            is_zero = is_zero and not any(piece)
            view, at = view[len(piece) :], at + len(piece)
            if at % SECTOR == 0:
                if is_zero:
                    return True
                is_zero = True
            if at >= end and at % SECTOR == 0:
                return False
    # The file ends within a sector: what is missing reads as zeros.
    return at % SECTOR != 0 and is_zero and at > start


_END = 2
"""So many zeros where a sector ends; a single one is common in a binary body."""

_HEAD = 96
_HEAD_END = 24
"""In the head of a record, whose numbers have zeros in a row, it takes so many."""


def has_unwritten_end(
    blocks: Iterable[bytes | memoryview], start: int, end: int
) -> bool:
    """
    Returns whether a sector that ends in ``(start, end]`` ends in zeros.

    A slave writes a record in pieces, so a sector may keep its first part and lose the
    rest.

    Args:
        blocks: the bytes from *start* on, in pieces that end with a sector or at the
            end.
        start: offset in the log.
        end: exclusive.
    """
    at = start
    for block in blocks:
        view = memoryview(block)
        for stop in range(SECTOR - at % SECTOR, len(view) + 1, SECTOR):
            if at + stop > end:
                return False
            least = _END if at + stop - start > _HEAD else _HEAD_END
            if stop >= least and not any(view[stop - least : stop]):
                return True
        at += len(view)
    return False
