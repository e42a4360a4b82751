"""
The segments of a log: scans, raw bytes, the last record, the last nonzero byte.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from pystore.bindings.ffi import NO_CHECK, NO_OFFSET, Check
from pystore.core.log_reader import LogReader
from pystore.core.results import Cursor, IllRange
from pystore.errors import CorruptError, OffsetOutOfRange
from pystore.fs.layout import segment_path

_CHUNK = 1 << 20


_ZEROS = bytes(_CHUNK)


class Segments:
    """
    The whole segments of a log, as crash recovery reads them.

    Attributes:
        zeros: by base offset, from where on a segment was found to be zero: its rest
            is read once.
    """

    def __init__(self, log: LogReader) -> None:
        self.log = log
        self.zeros: dict[int, int] = {}
        self._bases = log.segments()
        self._ill = log.ill()
        self._size = log.ends().segment_size

    @property
    def bases(self) -> Sequence[int]:
        """
        Base offsets of the segments, ascending.
        """
        return self._bases

    @property
    def ill(self) -> Sequence[IllRange]:
        """
        The ranges whose bytes are not there; an opening for writing has none.
        """
        return self._ill

    def ill_at(self, offset: int) -> IllRange | None:
        """
        The ill range that holds an offset.
        """
        held = (one for one in self._ill if one.offset <= offset < one.end)
        return next(held, None)

    @property
    def stranded(self) -> Sequence[int]:
        """
        Base offsets of the stranded segments: empty, after a missing one, and no part
        of the log.
        """
        return self.log.stranded()

    @property
    def segment_size(self) -> int:
        """
        Of every segment, in bytes.
        """
        return self._size

    @property
    def end(self) -> int:
        """
        The end of the last segment; 0 without any.
        """
        return self._bases[-1] + self._size if self._bases else 0

    def base_of(self, offset: int) -> int:
        """
        The base of the segment that holds an offset (or ends at it, if it is the
        last).
        """
        if not self._bases:
            return offset
        index = (offset - self._bases[0]) // self._size
        return self._bases[max(0, min(index, len(self._bases) - 1))]

    def raw(self, offset: int, size: int) -> bytes:
        """
        Up to ``size`` bytes from ``offset``, within its segment.
        """
        if size <= 0:
            return b""
        try:
            return bytes(self.log.acquire(offset, size))
        except OffsetOutOfRange:
            # No segment is there.
            return b""
        except CorruptError:
            if self.ill_at(offset) is None:
                raise
            # None of its bytes is there.
            return b""

    def scan_end(self, offset: int, checks: Check, limit: int = NO_OFFSET) -> Cursor:
        """
        Scans from ``offset`` to the stop.
        """
        return self.log.scan(offset, limit, checks).finish()

    def rows(self, offset: int, checks: Check) -> Iterator[NDArray[Any]]:
        """
        As `scan_end`, with rows.
        """
        return self.log.scan(offset, NO_OFFSET, checks)


def last_record(segments: Segments, end: int) -> tuple[int, int] | None:
    """
    Offset and store time of the last record below ``end``; the newest segment is
    scanned first.
    """
    for base in reversed(segments.bases):
        if base < end:
            found = segments.scan_end(base, NO_CHECK, end)
            if found.record_start is not None:
                return found.record_start, found.record_ms
    return None


def data_end(segments: Segments, offset: int) -> int:
    """
    The end of the last nonzero byte in the segment of ``offset``, from ``offset`` on;
    ``offset`` without one.
    """
    base = segments.base_of(offset)
    if segments.ill_at(offset) is not None:
        return offset
    path = segment_path(Path(segments.log.path), base)
    found = base + _last_nonzero(path, offset - base, segments.segment_size)
    if found == offset:
        segments.zeros[base] = offset
    return found


def search_end(segments: Segments, offset: int, written: int) -> int:
    """
    The end of a search for records up to the last nonzero byte at ``written``: a record
    may end with zeros.
    """
    end = segments.base_of(offset) + segments.segment_size
    return min(end, written + _CHUNK)


def nonzero_end(root: Path, segments: Segments, end: int) -> int:
    """
    The end of the last nonzero byte above ``end``; ``end`` if there is none. A cut at
    ``end`` removes the bytes between.
    """
    found = end
    for base in segments.bases:
        if base + segments.segment_size <= end:
            continue
        at = max(0, end - base)
        if segments.ill_at(base + at) is not None:
            continue
        if segments.zeros.get(base, base + segments.segment_size) <= base + at:
            continue
        path = segment_path(root, base)
        last = _last_nonzero(path, at, segments.segment_size)
        if last > at:
            found = base + last
    return found


def _last_nonzero(path: Path, at: int, size: int) -> int:
    """
    Reads only the data of the file, not its holes: a new segment is one hole.
    """
    last = at
    descriptor = os.open(path, os.O_RDONLY)
    try:
        start = at
        while start < size:
            try:
                data = os.lseek(descriptor, start, os.SEEK_DATA)
                hole = os.lseek(descriptor, data, os.SEEK_HOLE)
            except OSError:
                # ENXIO: only a hole follows.
                break
            while data < min(hole, size):
                chunk = os.pread(descriptor, min(_CHUNK, min(hole, size) - data), data)
                if not chunk:
                    return last
                # A comparison is 30 times as fast as a strip, and most bytes are zero.
                if chunk != _ZEROS[: len(chunk)]:
                    last = data + len(chunk.rstrip(b"\0"))
                data += len(chunk)
            start = hole
    finally:
        os.close(descriptor)
    return last
