"""
The name of the field that holds a byte of a record.

The names are those of `pystore dump`.

Layout: docs/format.md, message record.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pystore.bindings.row import Proof
from pystore.message.constants import CRC_SIZE, born_host_size, store_host_size

__all__ = ["field_at"]

_FIXED = (
    (4, "size"),
    (4, "magic"),
    (4, "bodyCRC"),
    (4, "queueId"),
    (4, "flag"),
    (8, "queueOffset"),
    (8, "physicalOffset"),
    (4, "sysFlag"),
    (8, "bornTimestamp"),
)


def field_at(row: NDArray[Any] | np.void, at: int) -> str:
    """
    Returns the name of the field of a byte.

    Args:
        row: of the record, ``RECORD_DTYPE``.
        at: the position of the byte in the record.
    """
    sys_flag = int(row["sys_flag"])
    sizes = (
        *_FIXED,
        (born_host_size(sys_flag), "bornHost"),
        (8, "storeTimestamp"),
        (store_host_size(sys_flag), "storeHost"),
        (4, "reconsumeTimes"),
        (8, "preparedTransactionOffset"),
        (4, "bodyLength"),
        (int(row["body_size"]), "body"),
        (int(row["version"]), "topicLength"),
        (int(row["topic_size"]), "topic"),
        (2, "propertiesLength"),
    )
    end = 0
    for size, name in sizes:
        end += size
        if at < end:
            return name
    if row["proof"] & Proof.HAS_PROPERTY and at >= int(row["size"]) - CRC_SIZE:
        return "property CRC"
    return "properties"
