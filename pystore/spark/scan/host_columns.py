"""
The addresses and message ids of many records at once.

Most logs have few different addresses: each is made into text once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pystore.message.constants import IPV4_SIZE, IPV6_SIZE
from pystore.message.host import host_text

__all__ = ["address_texts", "message_ids"]

_HEX = np.frombuffer("".join(f"{byte:02X}" for byte in range(256)).encode(), np.uint16)


def address_texts(
    data: NDArray[np.uint8], at: NDArray[Any], is_wide: NDArray[np.bool_]
) -> pa.Array:
    """
    Returns ``address:port`` of each record.

    Args:
        data: bytes of the records.
        at: start of each address in *data*.
        is_wide: whether the address is IPv6.
    """

    def make(raw: NDArray[np.uint8], _: NDArray[np.bool_]) -> pa.Array:
        count, size = raw.shape
        whole = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(size), count, [None, pa.py_buffer(raw)]
        )
        known = whole.dictionary_encode()
        names = pa.array([host_text(one.as_py()) for one in known.dictionary])
        return names.take(known.indices)

    return _both_kinds(data, at, is_wide, make)


def message_ids(
    data: NDArray[np.uint8],
    at: NDArray[Any],
    is_wide: NDArray[np.bool_],
    offsets: NDArray[Any],
) -> pa.Array:
    """
    Returns the message id of each record: store host and offset, in upper hex.

    Args:
        data: bytes of the records.
        at: start of each store host in *data*.
        is_wide: whether the store host is IPv6.
        offsets: of the records in the log.
    """
    big = offsets.astype(">u8")[:, None].view(np.uint8)

    def make(raw: NDArray[np.uint8], chosen: NDArray[np.bool_]) -> pa.Array:
        digits = np.ascontiguousarray(_HEX[np.hstack([raw, big[chosen]])])
        count, size = digits.shape
        edges = np.arange(count + 1, dtype=np.int32) * (2 * size)
        return pa.StringArray.from_buffers(
            count, pa.py_buffer(edges), pa.py_buffer(digits)
        )

    return _both_kinds(data, at, is_wide, make)


def _both_kinds(
    data: NDArray[np.uint8],
    at: NDArray[Any],
    is_wide: NDArray[np.bool_],
    make: Callable[[NDArray[np.uint8], NDArray[np.bool_]], pa.Array],
) -> pa.Array:
    """
    The results of *make* for IPv4 and IPv6 addresses, in the order of the records.
    """
    parts, places = [], np.empty(len(at), np.int64)
    count = 0
    for size, chosen in ((IPV4_SIZE, ~is_wide), (IPV6_SIZE, is_wide)):
        found = int(np.count_nonzero(chosen))
        if not found:
            continue
        # A view of every possible address: taking one whole address is four times as
        # fast as taking its bytes.
        everywhere = np.ndarray((len(data) - size + 1,), f"V{size}", data, strides=(1,))
        raw = everywhere[at[chosen]].view(np.uint8).reshape(-1, size)
        parts.append(make(raw, chosen).cast(pa.string()))
        places[chosen] = np.arange(count, count + found)
        count += found
    if len(parts) == 1:
        return parts[0]
    return pa.concat_arrays(parts).take(pa.array(places))
