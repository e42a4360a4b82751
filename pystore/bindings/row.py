"""
Rows: the fields of each record that a scan found, and the constants of its checks.
Pure.

A row has one field for each field of the record; ``*_at`` are positions from the
record's first byte. The core fills rows, and so does the decoder that needs no
core (`pystore.spark.scan.python_segment`). The values are the core's: tests compare
each with its header.
"""

from __future__ import annotations

import struct
from enum import IntEnum, IntFlag

import numpy as np

from pystore.stored_names import public

__all__ = [
    "NO_CHECK",
    "NO_OFFSET",
    "NO_TOPIC",
    "RECORD_DTYPE",
    "Check",
    "Proof",
    "Stop",
    "unpack_record",
]

NO_OFFSET = 2**64 - 1
"""No offset, or no bound."""

NO_TOPIC = 2**32 - 1
"""The topic id of a row of a scan without topics."""


@public
class Check(IntFlag):
    """
    What a scan checks beyond the structure, and what it fills.

    ``FIELDS`` is retired and checks nothing: a NUL or a property string without an
    entry is content (A6).
    """

    BODY = 1
    PROPERTY = 2
    OFFSET = 4
    FIELDS = 8
    TAGS = 16
    TOPIC = 32
    NEED_PROPERTY = 64
    ONCE = 128
    PASS_COPIED = 256


NO_CHECK = Check(0)
"""The structure alone, which is always checked."""


@public
class Proof(IntFlag):
    """
    The checks that a row passed (its ``proof``).
    """

    BODY = 1
    PROPERTY = 2
    HAS_PROPERTY = 4
    DIFFERS = 8


@public
class Stop(IntEnum):
    """
    Why a scan stopped. From ``SIZE`` on it is a bad record.

    ``FIELDS`` and ``STALE`` are retired: no scan answers them.
    """

    ROWS = 1
    LIMIT = 2
    ZERO = 3
    LAST = 4
    SIZE = 5
    MAGIC = 6
    LENGTHS = 7
    BODY = 8
    PROPERTY = 9
    OFFSET = 10
    FIELDS = 11
    STALE = 12
    UNREADABLE = 13
    BLANK = 14

    @property
    def is_bad(self) -> bool:
        """
        Whether the scan stopped at a bad record.
        """
        return self >= Stop.SIZE


RECORD_DTYPE = np.dtype(
    [
        ("offset", "=u8"),
        ("queue_offset", "=i8"),
        ("store_ms", "=i8"),
        ("born_ms", "=i8"),
        ("tags_code", "=i8"),
        ("prepared_offset", "=i8"),
        ("size", "=u4"),
        ("queue_id", "=i4"),
        ("flag", "=i4"),
        ("sys_flag", "=u4"),
        ("reconsume_times", "=i4"),
        ("body_crc", "=u4"),
        ("body_at", "=u4"),
        ("body_size", "=u4"),
        ("topic_at", "=u4"),
        ("topic_id", "=u4"),
        ("properties_at", "=u4"),
        ("topic_size", "=u2"),
        ("properties_size", "=u2"),
        ("version", "=u2"),
        ("proof", "=u2"),
        ("reserved", "=u4"),
    ]
)
"""One row of a scan: ``ps_record``, field by field."""

unpack_record = struct.Struct("=QqqqqqIiiIiIIIIIIHHHH4x").unpack
"""Unpacks a ``ps_record``, without the reserved bytes."""
