"""
The bytes of a record that no checksum covers.

The property CRC covers a whole record. Without it only the body has a checksum. The
structure protects sizes, magic and the embedded offset: every change of them
contradicts the rest of the record. A change of any other byte is not detected.

A byte counts as uncovered if at least one change of it is not detected.

Layout: docs/format.md, message record.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pystore.bindings.ffi import Proof

__all__ = ["UNCOVERED_FIELDS", "uncovered_bytes", "uncovered_ranges"]

UNCOVERED_FIELDS = (
    "queueId",
    "flag",
    "queueOffset",
    "sysFlag",
    "bornTimestamp",
    "bornHost",
    "storeTimestamp",
    "storeHost",
    "reconsumeTimes",
    "preparedTransactionOffset",
    "topic",
    "properties",
)
"""The fields of a record without property CRC that no checksum covers."""

_QUEUE_AT, _OFFSET_AT, _SYS_FLAG_AT = 12, 28, 36
_LENGTH_SIZE = 4


def uncovered_ranges(row: NDArray[Any] | np.void) -> list[tuple[int, int]]:
    """
    Returns the ranges ``[start, end)`` of one record, from its first byte.

    Args:
        row: of ``RECORD_DTYPE``, from a scan that checked the property CRC.
    """
    if row["proof"] & Proof.PROPERTY:
        return []
    topic, properties = int(row["topic_at"]), int(row["properties_at"])
    ranges = [
        (_QUEUE_AT, _OFFSET_AT),
        (_SYS_FLAG_AT, int(row["body_at"]) - _LENGTH_SIZE),
        (topic, topic + int(row["topic_size"])),
        (properties, properties + int(row["properties_size"])),
    ]
    return [one for one in ranges if one[0] < one[1]]


def uncovered_bytes(rows: NDArray[Any]) -> int:
    """
    Returns how many bytes of these records no checksum covers.

    Args:
        rows: of ``RECORD_DTYPE``, from a scan that checked the property CRC.
    """
    bare = rows[(rows["proof"] & Proof.PROPERTY) == 0]
    if not len(bare):
        return 0
    fixed = _OFFSET_AT - _QUEUE_AT - _SYS_FLAG_AT - _LENGTH_SIZE
    total = int(bare["body_at"].sum(dtype=np.int64)) + fixed * len(bare)
    total += int(bare["topic_size"].sum(dtype=np.int64))
    return total + int(bare["properties_size"].sum(dtype=np.int64))
