"""
Where a stream without a checkpoint begins in a log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pystore.bindings.row import Check
from pystore.damage.past_damage import rows_past_damage
from pystore.spark.source.offsets import StreamOffset
from pystore.spark.source.record_walk import first_from

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pystore.errors import CorruptError
    from pystore.spark.plan.options import StreamOptions
    from pystore.spark.source.tail import StoreSnapshot

__all__ = ["starting_offset"]

_ROWS = 8192


def starting_offset(
    snapshot: StoreSnapshot, names: Iterable[str], options: StreamOptions
) -> StreamOffset:
    """
    Returns the start of a stream in a log.

    Args:
        snapshot: of the store that is read.
        names: of the log: its key, and the roots of its stores.
        options: of the stream.
    """
    known = dict(options.starting_of)
    offset = next((known[name] for name in names if name in known), None)
    if offset is None and options.starting_ms is not None:
        return _at(snapshot, _first_since(snapshot, options.starting_ms))
    if offset is None and options.starting == "earliest":
        return snapshot.first()
    if offset is None and options.starting == "latest":
        return snapshot.last(snapshot.min_offset, snapshot.top)
    given = int(options.starting) if offset is None else offset
    return _at(snapshot, first_from(snapshot.log, given, snapshot.top))


def _at(snapshot: StoreSnapshot, offset: int) -> StreamOffset:
    return snapshot.last(offset, offset)


def _first_since(snapshot: StoreSnapshot, ms: int) -> int:
    """
    The first record with a store time at or after *ms*, in the newest of the segments
    up to the first one that begins at or after it, or above.

    Damage before that record, behind the last older one, may hold younger records: then
    the stream begins at it.
    """
    log, top = snapshot.log, snapshot.top
    bases = [base for base in log.segments() if base < top]
    start = snapshot.min_offset
    for base in bases:
        rows = next(iter(log.scan(base, top, rows=1)), None)
        if rows is None:
            continue
        if int(rows["store_ms"][0]) >= ms:
            break
        start = base
    damages: list[int] = []

    def note(error: CorruptError, _: int) -> None:
        damages.append(start if error.offset is None else error.offset)

    for rows in rows_past_damage(
        log, start, top, Check.OFFSET, rows=_ROWS, on_damage=note
    ):
        found = np.flatnonzero(rows["store_ms"] >= ms)
        if len(found) and (found[0] or not damages):
            return int(rows["offset"][found[0]])
        if len(found):
            break
        damages.clear()
    return damages[0] if damages else top
