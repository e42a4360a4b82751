"""
Scanning a log past its damage.

Behind a bad record the scan goes on at the next record of its segment that proves its
place, and behind bytes that are not there with the next segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from numpy.typing import NDArray

from pystore.bindings.ffi import Check, Stop
from pystore.core.log_reader import LogReader
from pystore.core.results import Cursor
from pystore.core.resync import next_record
from pystore.errors import CorruptError

__all__ = ["rows_past_damage"]


def rows_past_damage(
    log: LogReader,
    start: int,
    end: int,
    checks: Check,
    *,
    rows: int,
    on_damage: Callable[[CorruptError, int], object] | None = None,
) -> Iterator[NDArray[Any]]:
    """
    Yields the rows of a range, in the order of the log.

    Args:
        log: to scan.
        start: of a record, of damage, or of a segment.
        end: exclusive, at most the end of the log.
        checks: what to check beyond the structure, and what to fill.
        rows: of one array.
        on_damage: called with the error of each damaged range, and its end.

    Raises:
        OffsetOutOfRange, CutError, StorageError: while iterating.
    """
    ill = [(one.offset, one.end) for one in log.ill()]
    offset = start
    while offset < end:
        scan = log.scan(offset, end, checks, rows=rows)
        yield from scan
        found = scan.cursor
        if found.offset >= end or found.stop is Stop.LAST:
            return
        text = found.text or "nothing was written here, but the log continues"
        if found.stop is Stop.LIMIT:
            if end < log.ends().published_end:
                return  # within a record, by the caller's choice
            text = f"no record ends at {end}: the size of the last one is wrong"
        offset = _behind(log, found, end, ill)
        if on_damage is not None:
            error = CorruptError(text, offset=found.offset, path=log.path)
            on_damage(error, offset)


def _behind(log: LogReader, found: Cursor, end: int, ill: list[tuple[int, int]]) -> int:
    """
    Where to go on: at the next record of the segment, else with the next segment.
    """
    size = log.ends().segment_size
    stop = min(found.offset - found.offset % size + size, end)
    for low, high in ill:
        if low <= found.offset < high:
            return min(high, end)
    if found.offset + 1 >= stop:
        return stop
    behind = next_record(log, found, stop)
    return stop if behind is None else behind
