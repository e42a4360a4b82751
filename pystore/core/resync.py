"""
Behind a bad record: does its size still lead to another one?
"""

from __future__ import annotations

from pystore.bindings.row import Check, Stop
from pystore.core.log_reader import LogReader
from pystore.core.results import Cursor

__all__ = ["following"]

_SIZED = (Stop.BODY, Stop.PROPERTY, Stop.OFFSET)
"""Bad records whose lengths add up, so that the size is probably right."""


def following(log: LogReader, found: Cursor, end: int) -> int | None:
    """
    Returns where the record behind a bad one begins, or ``None`` if nobody knows.

    Args:
        log: that was scanned.
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
