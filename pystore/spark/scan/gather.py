"""
Copies ranges of a buffer into an Arrow array, all at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["gather", "texts"]


def gather(data: pa.Buffer, starts: NDArray[Any], sizes: NDArray[Any]) -> pa.Array:
    """
    Returns the bytes of each range, copied into one binary array.

    The ranges and the gaps between them form an Arrow array over *data*. Arrow takes
    every second element of it.

    Args:
        data: smaller than 2 GiB.
        starts: of the ranges, ascending; ranges do not overlap.
        sizes: of the ranges, in bytes.
    """
    count = len(starts)
    if not count:
        return pa.array([], pa.binary())
    edges = np.empty(2 * count, np.int32)
    edges[0::2] = starts
    edges[1::2] = starts + sizes
    pieces = pa.Array.from_buffers(
        pa.binary(), 2 * count - 1, [None, pa.py_buffer(edges), data]
    )
    return pieces.take(pa.array(np.arange(0, 2 * count, 2)))


def texts(raw: pa.Array) -> pa.Array:
    """
    Returns binary values as text. Invalid UTF-8 becomes U+FFFD, as in RocketMQ.
    """
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        # Rare, so a loop is fast enough.
        values = (value.as_py() for value in raw)
        return pa.array(
            [None if v is None else v.decode("utf-8", "replace") for v in values],
            pa.string(),
        )
