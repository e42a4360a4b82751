"""
A comparison of two stores: their bytes first, then what the differences mean.

Where bytes differ, the walk of the damage model tells which store is whole there. Where
both are, their histories part; if both have epochs, these say where.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from pystore.compare.differing import Differing, find_differing
from pystore.compare.log_bytes import LogBytes
from pystore.compare.record_field import field_at
from pystore.compare.report import CompareReport, FirstDifference, LogDifference
from pystore.compare.side import StoreSide
from pystore.fs.layout import store_root

__all__ = ["compare_stores"]


def compare_stores(
    ours: Path,
    theirs: Path,
    *,
    progress: Callable[[int, int], object] | None = None,
) -> CompareReport:
    """
    Compares the logs of two stores over the offsets that both have.

    Nothing is written and no lock is taken. Stores may be damaged, of different segment
    sizes, and open in other processes.

    Args:
        ours: root of one store.
        theirs: root of the other one.
        progress: called with the bytes that are done, and their total.

    Raises:
        NotAStoreError: missing, or not a store.
        CutError: a log was cut meanwhile; compare again.
        StorageError: the system refused.
    """
    sides = StoreSide(store_root(ours)), StoreSide(store_root(theirs))
    logs = sides[0].summary(), sides[1].summary()
    report = CompareReport(logs)
    report.start_offset = max(log.min_offset for log in logs)
    report.end_offset = min(log.end_offset for log in logs)
    size = report.end_offset - report.start_offset

    def reach(done: int) -> None:
        if progress is not None:
            progress(done, size)

    with LogBytes(sides[0].log) as one, LogBytes(sides[1].log) as two:
        found = find_differing(one, two, report.start_offset, report.end_offset, reach)
    _judge(report, sides, found)
    tables = [log.epochs for log in logs]
    if report.has_epochs and tables[0] is not None and tables[1] is not None:
        report.consistent_point = tables[0].consistent_point(
            tables[1], logs[0].end_offset, logs[1].end_offset
        )
    for side in sides:
        side.unchanged()
    return report


def _judge(
    report: CompareReport, sides: tuple[StoreSide, StoreSide], found: Differing
) -> None:
    report.compared_bytes = found.compared
    report.unreadable_bytes = found.unreadable
    report.ranges, report.bytes_differing = found.count, found.size
    if not found.ranges:
        return
    ours, our_record = sides[0].judge(found.ranges, 0)
    theirs, their_record = sides[1].judge(found.ranges, 1)
    report.differences = [
        LogDifference(one.start, one.end - one.start, states)
        for one, *states_of in zip(found.ranges, ours, theirs, strict=True)
        for states in [(states_of[0], states_of[1])]
    ]
    offset = found.ranges[0].start
    # A record that is whole knows the place of its fields.
    record: np.void | None = our_record if our_record is not None else their_record
    if ours[0].verdict == "damaged" and their_record is not None:
        record = their_record
    start = None if record is None else int(record["offset"])
    field = "" if record is None else field_at(record, offset - int(record["offset"]))
    paths = sides[0].path_at(offset), sides[1].path_at(offset)
    report.first = FirstDifference(offset, paths, start, field)
