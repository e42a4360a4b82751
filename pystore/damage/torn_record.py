"""
Records that pass every check although a crash took a part of them.

Without a property CRC nothing covers topic and properties. If the end of a record is
lost, the lengths still add up, and zeros stand there up to the end of the sector (A6).
A record that ends with a zero by content has its next record behind it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pystore.bindings.row import Proof
from pystore.core.log_reader import LogReader
from pystore.damage.zeros import SECTOR, has_lost_sector

__all__ = ["torn_records"]

SIZE_BYTES = 4
"""The size of a record, and then its magic code, begin it."""


def torn_records(log: LogReader, rows: NDArray[Any]) -> list[int]:
    """
    Returns the offsets of the records whose topic or properties lost a sector.

    Args:
        log: has the rows' records.
        rows: of ``RECORD_DTYPE``, of one segment.
    """
    bare = rows[(rows["proof"] & Proof.HAS_PROPERTY) == 0]
    if not len(bare):
        return []
    first = int(bare[0]["offset"])
    size = int(bare[-1]["offset"] + bare[-1]["size"]) - first
    data = np.frombuffer(log.acquire(first, size), np.uint8)
    starts = bare["offset"].astype(np.int64) - first
    # Two zeros are the length of no properties.
    ends = starts + bare["size"] - 2 * (bare["properties_size"] == 0)
    is_suspect = (data[ends - 1] == 0) | (bare["properties_size"] >= SECTOR)
    found = []
    for at in np.flatnonzero(is_suspect).tolist():
        low = int(starts[at] + bare[at]["topic_at"]) + first
        high = int(ends[at]) + first
        stop = -(-high // SECTOR) * SECTOR
        tail = log.acquire(low, stop - low) if low < high else b""
        is_end_lost = data[ends[at] - 1] == 0 and high < stop
        is_end_lost = is_end_lost and not any(tail[high - low :])
        if stop - high < SIZE_BYTES and is_end_lost:
            # The size of the record behind begins with zeros, too.
            is_end_lost = not any(log.acquire(high, 2 * SIZE_BYTES))
        if is_end_lost or has_lost_sector([tail], low, high):
            found.append(int(bare[at]["offset"]))
    return found
