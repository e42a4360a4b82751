"""
The ranges in which two logs differ, found in one pass over both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pystore.compare.log_bytes import LogBytes

__all__ = ["MISSING", "UNREADABLE", "Differing", "DifferingRange", "find_differing"]

LISTED_MAX = 20
_CHUNK = 1 << 20
_PAGE = 4096
_NEAR = 512
"""Bytes that differ so near to each other are of one range."""

MISSING, UNREADABLE = "missing", "unreadable"


class DifferingRange(NamedTuple):
    """
    A range: begin, end, and why the bytes of each log were not compared, if they were
    not.
    """

    start: int
    end: int
    kinds: tuple[str, str] = ("", "")


class Differing:
    """
    Collects ranges in ascending order.

    Attributes:
        ranges: the first `LISTED_MAX`.
        count: of all ranges.
        size: of all ranges, in bytes.
        compared: bytes that were compared.
        unreadable: bytes that could not be read in one of the logs.
    """

    def __init__(self) -> None:
        self.ranges: list[DifferingRange] = []
        self.count = self.size = self.compared = self.unreadable = 0
        self._last: DifferingRange | None = None

    def add(self, found: DifferingRange) -> None:
        """
        Adds a range, which may continue the last one.
        """
        last = self._last
        near = 0 if any(found.kinds) else _NEAR
        is_more = last is not None and last.kinds == found.kinds
        if is_more and last is not None and found.start - last.end <= near:
            self._last = last._replace(end=found.end)
            return
        self.finish()
        self._last = found

    def finish(self) -> None:
        """
        Ends the last range.
        """
        last, self._last = self._last, None
        if last is None:
            return
        self.count += 1
        self.size += last.end - last.start
        if len(self.ranges) < LISTED_MAX:
            self.ranges.append(last)


def find_differing(
    ours: LogBytes,
    theirs: LogBytes,
    start: int,
    end: int,
    progress: Callable[[int], object] | None = None,
) -> Differing:
    """
    Compares two logs byte by byte, in bounded memory.

    Args:
        ours: one log.
        theirs: the other one.
        start: the first offset.
        end: exclusive.
        progress: called with the bytes that are done.

    Raises:
        StorageError: the system refused.
    """
    found, offset = Differing(), start
    while offset < end:
        one, two = ours.stretch(offset, end), theirs.stretch(offset, end)
        stop = min(one.end, two.end)
        if one.piece is None or two.piece is None:
            kinds = ("" if one.piece else MISSING, "" if two.piece else MISSING)
            found.add(DifferingRange(offset, stop, kinds))
            offset = stop
            continue
        size = min(stop - offset, _CHUNK - offset % _CHUNK)
        data = ours.read(one.piece, offset, size), theirs.read(two.piece, offset, size)
        if None in data and size > _PAGE:
            size = min(stop - offset, _PAGE - offset % _PAGE)
            data = (
                ours.read(one.piece, offset, size),
                theirs.read(two.piece, offset, size),
            )
        _compare(found, offset, size, data)
        offset += size
        if progress is not None:
            progress(offset - start)
    found.finish()
    return found


def _compare(
    found: Differing, offset: int, size: int, data: tuple[bytes | None, bytes | None]
) -> None:
    one, two = data
    if one is None or two is None:
        found.unreadable += size
        kinds = (
            "" if one is not None else UNREADABLE,
            "" if two is not None else UNREADABLE,
        )
        found.add(DifferingRange(offset, offset + size, kinds))
        return
    found.compared += size
    if one == two:
        return
    # The end of a file that was shortened meanwhile reads as zeros.
    places = np.flatnonzero(
        np.frombuffer(one.ljust(size, b"\0"), np.uint8)
        != np.frombuffer(two.ljust(size, b"\0"), np.uint8)
    )
    if not len(places):
        return
    edges = np.flatnonzero(np.diff(places) > _NEAR)
    firsts = places[np.concatenate(([0], edges + 1))].tolist()
    lasts = places[np.concatenate((edges, [len(places) - 1]))].tolist()
    for first, last in zip(firsts, lasts, strict=True):
        found.add(DifferingRange(offset + first, offset + last + 1))
