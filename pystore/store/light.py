"""
Finding the records with entries in light queues (LMQ).

Only stores that have such queues, or were adopted from RocketMQ, are searched. The
search is for a property's name in the log's bytes, so that Python runs once for each
record that has it and not once for each record.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pystore.consumequeue.build import Group
from pystore.consumequeue.light import LIGHT_PROPERTY, light_groups, light_places
from pystore.core.log_writer import LogHandle
from pystore.message.constants import NO_ENTRY
from pystore.recovery.segments import Segments

__all__ = ["find_light_groups"]

_CHUNK = 1 << 20


def find_light_groups(log: LogHandle, rows: NDArray[Any], end: int) -> list[Group]:
    """
    Returns the entries of these records in light queues.

    Args:
        log: open, with the records.
        rows: of a scan, in log order, with tags codes.
        end: the end of the last record.
    """
    if not len(rows):
        return []
    offsets = rows["offset"].astype(np.int64)
    found = np.array(_find(Segments(log), int(offsets[0]), end), np.int64)
    candidates = np.unique(np.searchsorted(offsets, found, side="right") - 1)
    records = []
    for row in rows[candidates[candidates >= 0]]:
        if row["sys_flag"] & NO_ENTRY:
            continue
        record = log.read(int(row["offset"]))
        places = light_places(record.topic, record.queue_id, record.properties)
        if places:
            entry = int(row["offset"]), int(row["size"]), int(row["tags_code"])
            records.append((*entry, places))
    return list(light_groups(records))


def _find(segments: Segments, start: int, end: int) -> list[int]:
    """
    The offsets of the property's name in a range of the log; records end with their
    segment.
    """
    found = []
    offset, size = start, segments.segment_size
    while offset < end:
        stop = min(end, offset - offset % size + size)
        data = segments.raw(offset, min(_CHUNK, stop - offset))
        at = data.find(LIGHT_PROPERTY)
        while at >= 0:
            found.append(offset + at)
            at = data.find(LIGHT_PROPERTY, at + 1)
        if not data or offset + len(data) >= stop:
            offset = stop
        else:  # the name may lie on the edge
            offset += len(data) - len(LIGHT_PROPERTY) + 1
    return found
