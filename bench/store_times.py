"""
Artificial store times, written into the records of a store.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pystore.core.log_reader import LogReader

__all__ = ["set_minutes"]

_STORE_TIME_AT = 56
"""In a record; format 2 and IPv4 hosts."""


def set_minutes(root: Path, first_ms: int) -> int:
    """
    Sets store times as if each segment had taken a minute.

    Checksums of properties do not cover them.

    Args:
        root: of a store that is closed; every record has IPv4 hosts.
        first_ms: of the first record, since 1970.

    Returns:
        The bytes of the segments' first records.
    """
    firsts = 0
    with LogReader(root) as log:
        size = log.ends().segment_size
        for number, base in enumerate(log.segments()):
            firsts += log.read(base).size
            path = root / "commitlog" / f"{base:020d}"
            content = np.memmap(path, np.uint8, "r+")
            begin_ms = first_ms + number * 60_000
            for rows in log.scan(base, base + size):
                at = (rows["offset"] - base).astype(np.int64)[:, None] + _STORE_TIME_AT
                times = begin_ms + np.arange(len(rows)) % 1000
                raw = times.astype(">i8")[:, None].view(np.uint8)
                content[at + np.arange(8)] = raw
            content.flush()
    return firsts
