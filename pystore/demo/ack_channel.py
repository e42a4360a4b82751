"""
What was acknowledged, kept outside of the process that will be killed.

The writer says so on a pipe, a fixed number of bytes each time, which a pipe
takes all or none. What the parent has read counts as acknowledged.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pystore.core.results import Appended

__all__ = ["ACK_DTYPE", "Acks", "read_acks", "send_ack"]

ACK_DTYPE = np.dtype(
    [("job", "=i8"), ("offset", "=i8"), ("end", "=i8"), ("count", "=i8")]
)
"""One acknowledgement: the job, and where its records are."""

Acks = NDArray[np.void]
"""An array of ``ACK_DTYPE``."""

_READ_BYTES = 65536


def send_ack(pipe: int, job: int, appended: Appended) -> None:
    """
    Tells the parent that *job* is acknowledged. Any thread.
    """
    ack = (job, appended.offset, appended.end, appended.count)
    os.write(pipe, np.array(ack, ACK_DTYPE).tobytes())


def read_acks(pipe: int) -> Iterator[Acks]:
    """
    Yields acknowledgements as they come, until nobody can send any more.

    What is less than one of them at the very end does not count.
    """
    rest = b""
    while data := os.read(pipe, _READ_BYTES):
        data = rest + data
        whole = len(data) - len(data) % ACK_DTYPE.itemsize
        rest = data[whole:]
        if whole:
            yield np.frombuffer(data[:whole], ACK_DTYPE)
