"""
The filler records for the damaged ranges of one store.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pystore.bindings.ffi import Proof
from pystore.core.log_reader import LogReader
from pystore.damage.segment_walk import CHECKS
from pystore.doctor.filler import filler_bytes
from pystore.doctor.source import epochs_of
from pystore.errors import FormatError, PystoreError
from pystore.fs.layout import IDENTITY_FILE, TEMPORARY_IDENTITY_FILE, segment_path
from pystore.recovery.dry_run import find_bounds
from pystore.recovery.segments import Segments, nonzero_end
from pystore.recovery.torn_tail import Bound

__all__ = ["FillerSource", "may_fill"]


def may_fill(root: Path) -> bool:
    """
    Returns whether a store belongs to no set: no epochs, no identity, and segments that
    can be opened.
    """
    names = (IDENTITY_FILE, TEMPORARY_IDENTITY_FILE)
    epochs = epochs_of(root)
    if any((root / name).exists() for name in names) or epochs is None or len(epochs):
        return False
    try:
        LogReader(root).close()
    except PystoreError:
        # Segments that do not fit together come first.
        return False
    return True


class FillerSource:
    """
    Makes filler records. A context manager; for one thread.

    Args:
        root: of the damaged store.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._log = LogReader(root)

    def __enter__(self) -> FillerSource:
        return self

    def __exit__(self, *_: object) -> None:
        self._log.close()

    @property
    def segment_size(self) -> int:
        """
        In bytes.
        """
        return self._log.ends().segment_size

    def end_of(self, start: int, end: int) -> int:
        """
        Returns where the filler of a damaged range ends; its start, if none is of use.

        Behind damage at the end of the log no record says where that was: what is
        stored and the zeros do. A blank record up to the end of the last segment would
        be no end for an opening; nor is any filler, if more segments are missing.
        """
        segments = Segments(self._log)
        if end < segments.end:
            return end
        try:
            bound = find_bounds(self._root).bound
        except FormatError:
            # Metadata that cannot be read is damage of its own: it is healed first.
            return start
        known = bound.offset if isinstance(bound, Bound) else bound.bound
        if known > segments.end:
            return start
        return max(known, nonzero_end(self._root, segments, start))

    def bytes(self, start: int, end: int) -> bytes:
        """
        Returns whole records for a damaged range; empty: it cannot be filled, because
        it is too small, in two segments, or because no file is there.
        """
        size = self._log.ends().segment_size
        base = start - start % size
        path = segment_path(self._root, base)
        if end > base + size or not path.is_file() or path.stat().st_size != size:
            return b""
        before = self._record_before(base, start)
        if before is None:
            return b""
        return filler_bytes(
            start,
            end,
            int(before["store_ms"]),
            segment_size=size,
            property_crc=bool(before["proof"] & Proof.PROPERTY),
        )

    def _record_before(self, base: int, start: int) -> np.void | None:
        """
        The last whole record below, from the segment before if there is none.
        """
        size = self._log.ends().segment_size
        last = None
        for low in (base, base - size):
            if low < self._log.ends().min_offset:
                break
            for rows in self._log.scan(low, min(start, low + size), CHECKS):
                last = rows[-1]
            if last is not None:
                break
        return last
