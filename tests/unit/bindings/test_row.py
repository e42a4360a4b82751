"""
Rows: the constants of the core, repeated for modules without it.
"""

from __future__ import annotations

import numpy as np

from pystore._core import ffi, lib
from pystore.bindings import row as rows


def test_the_bounds_are_those_of_the_core() -> None:
    """
    No offset, no topic.
    """
    assert (lib.PS_NO_OFFSET, lib.PS_NO_TOPIC) == (rows.NO_OFFSET, rows.NO_TOPIC)


def test_a_row_is_a_record_of_the_core() -> None:
    """
    The struct has the size of a row, and unpacks into its fields without the padding.
    """
    raw = bytes(ffi.sizeof("ps_record"))

    assert len(raw) == rows.RECORD_DTYPE.itemsize
    (row,) = np.frombuffer(raw, rows.RECORD_DTYPE)
    assert len(row) - 1 == len(rows.unpack_record(raw))


def test_a_stop_from_size_on_is_a_bad_record() -> None:
    """
    The other stops are the normal end of a scan.
    """
    bad = [stop.name for stop in rows.Stop if stop.is_bad]

    assert "SIZE" == bad[0]
    assert not {"ROWS", "LIMIT", "ZERO", "LAST"} & set(bad)
