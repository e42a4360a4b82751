"""
Finding the records with entries in light queues (LMQ).

Only stores that have such queues, or were adopted from RocketMQ, are searched. The
core looks for the property, so that Python runs once for each record that has it and
not once for each record.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pystore.consumequeue.build import Group
from pystore.consumequeue.light import LIGHT_PROPERTY, light_groups, light_places
from pystore.core.log_reader import LogReader
from pystore.message.constants import NO_ENTRY
from pystore.message.record_batch import find_property

__all__ = ["find_light_groups"]


def find_light_groups(log: LogReader, rows: NDArray[Any]) -> list[Group]:
    """
    Returns the entries of these records in light queues.

    Args:
        log: open, with the records.
        rows: of a scan, in log order, with tags codes.
    """
    if not len(rows):
        return []
    records = []
    for row in rows[_named(log, rows)]:
        if row["sys_flag"] & NO_ENTRY:
            continue
        record = log.read(int(row["offset"]))
        places = light_places(record.topic, record.queue_id, record.properties)
        if places:
            entry = int(row["offset"]), int(row["size"]), int(row["tags_code"])
            records.append((*entry, places))
    return list(light_groups(records))


def _named(log: LogReader, rows: NDArray[Any]) -> NDArray[np.int64]:
    """
    The indexes of the records that have the property.
    """
    size, name = log.ends().segment_size, LIGHT_PROPERTY.decode()
    segments = rows["offset"] // size
    # A view of bytes ends with its segment.
    edges = np.flatnonzero(np.diff(segments)) + 1
    found, at = [], 0
    for part in np.split(rows, edges):
        start, last = int(part["offset"][0]), part[-1]
        end = int(last["offset"]) + int(last["size"])
        with log.acquire(start, end - start) as data:
            _, sizes = find_property(data, start, part, name)
        found.append(np.flatnonzero(sizes) + at)
        at += len(part)
    return np.concatenate(found)
