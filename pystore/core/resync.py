"""
The record after a bad record.

The size of a bad record is right if its lengths add up, so the next record is probably
at its end. Otherwise the segment is searched for the next bytes that prove to be a
record.
"""

from __future__ import annotations

from pystore.bindings.row import Check, Stop
from pystore.core.log_reader import LogReader
from pystore.core.results import Cursor

__all__ = ["next_record"]

_SIZED = (Stop.BODY, Stop.PROPERTY, Stop.OFFSET)
"""Stops at bad records with consistent lengths, so that the size is probably right."""


def next_record(log: LogReader, found: Cursor, end: int) -> int | None:
    """
    Returns the offset of the record after a bad one; ``None``: there is none up to
    *end*, or the bad record ends there.

    Args:
        log: the scanned log.
        found: the scan's cursor, at the bad record.
        end: of the segment, or that of the log if it is lower.
    """
    if found.stop in _SIZED:
        behind = found.offset + int.from_bytes(log.acquire(found.offset, 4))
        if behind >= end:
            return None
        probe = log.scan(behind, end, Check.OFFSET, rows=1)
        has_record = next(probe, None) is not None
        if has_record or not probe.cursor.stop.is_bad:
            return behind
    return log.resync(found.offset + 1, end)
