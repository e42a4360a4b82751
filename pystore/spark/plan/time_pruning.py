"""
Finds the segments that may hold records of wanted store times.

Only the first record of each segment is read. Store times rise, but for the steps of
clocks: a new master's clock may be behind. So the greatest store time of a segment is
taken as the greatest of the first records up to the next segment's, the least as the
least of the first records from its own on. A segment in which an epoch begins is always
read, also if it begins at the segment's end: there the step is between two first
records. Other steps within a segment are bounded by the option ``maxClockSkew``; by
default by 3 s, the most that A8 allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from pystore.spark.plan.record_head import read_record_head
from pystore.spark.plan.selection import Selection
from pystore.spark.plan.store_files import read_epoch_table

__all__ = ["segments_of_times"]

_LEAST = -(2**63)
_GREATEST = 2**63 - 1


def segments_of_times(
    store: Path, bases: Sequence[int], size: int, chosen: Selection, skew_ms: int
) -> list[int]:
    """
    Returns the segments that may hold a record of the selection's store times.

    Args:
        store: root of the store.
        bases: of the segments, ascending.
        size: of a segment.
        chosen: the selection.
        skew_ms: within an epoch store times go back by at most this.

    Raises:
        FormatError: the epoch file cannot be read.
        OSError: the system refused.
    """
    if chosen.from_ms is None and chosen.to_ms is None:
        return list(bases)
    firsts = [_first_ms(store, base) for base in bases]
    # A segment without a first record, and the end of the log, exclude nothing.
    tops = [_GREATEST if one is None else one for one in [*firsts[1:], None]]
    known = [_LEAST if one is None else one for one in firsts]
    greatest = [
        max(top, before)
        for top, before in zip(tops, accumulate(known, max), strict=True)
    ]
    lows = [_LEAST if one is None else one for one in reversed(firsts)]
    least = [*reversed(list(accumulate(lows, min)))]
    table = read_epoch_table(store)
    begins = [] if table is None else [start for _, start in table.pairs()]
    steps = {base for base in bases if any(base < at <= base + size for at in begins)}
    return [
        base
        for base, low, top in zip(bases, least, greatest, strict=True)
        if base in steps
        or (
            (chosen.to_ms is None or low <= chosen.to_ms + skew_ms)
            and (chosen.from_ms is None or top >= chosen.from_ms - skew_ms)
        )
    ]


def _first_ms(store: Path, base: int) -> int | None:
    # A blank segment, or one that was deleted meanwhile, has no first record.
    found = read_record_head(store, base, base)
    return None if found is None else found.store_ms
