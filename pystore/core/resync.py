"""
The record after a bad record, found by the bad record's size.
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
    Returns the offset of the record after a bad one, or ``None`` if it is unknown.

    Args:
        log: the scanned log.
        found: the scan's cursor, at the bad record.
        end: of the segment, or that of the log if it is lower.
    """
    if found.stop not in _SIZED:
        return None
    behind = found.offset + int.from_bytes(log.acquire(found.offset, 4))
    if behind >= end:
        return None
    probe = log.scan(behind, end, Check.OFFSET, rows=1)
    has_record = next(probe, None) is not None
    return behind if has_record or not probe.cursor.stop.is_bad else None
