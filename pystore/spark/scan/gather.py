"""
Ranges of a buffer as an Arrow array, gathered at once.
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

    The ranges and the gaps between them are one Arrow array over *data* as it is;
    every other element of it is wanted, and Arrow takes them.

    Args:
        data: below 2 GiB.
        starts: ascending; no range reaches into the next one.
        sizes: in bytes.
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
    Returns binary values as text; what is no UTF-8 becomes U+FFFD, as in RocketMQ.
    """
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        # Rare enough to go through one by one.
        values = (value.as_py() for value in raw)
        return pa.array(
            [None if v is None else v.decode("utf-8", "replace") for v in values],
            pa.string(),
        )
