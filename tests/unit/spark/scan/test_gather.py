"""
Ranges of a buffer as one Arrow array.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pystore.spark.scan.gather import gather, texts


def test_ranges_are_gathered_in_order() -> None:
    """
    Some are empty, some adjacent; no ranges give an empty array.
    """
    data = pa.py_buffer(b"0123456789")
    starts, sizes = np.array([0, 2, 2, 4, 9]), np.array([2, 0, 2, 1, 1])

    found = gather(data, starts, sizes)

    assert [b"01", b"", b"23", b"4", b"9"] == found.to_pylist()
    assert [] == gather(data, starts[:0], sizes[:0]).to_pylist()


def test_invalid_utf_8_is_replaced() -> None:
    """
    As RocketMQ does it; nulls stay null.
    """
    raw = pa.array([b"ok", b"\xff!", None], pa.binary())

    assert ["ok", "\ufffd!", None] == texts(raw).to_pylist()
