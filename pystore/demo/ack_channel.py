"""
Acknowledgements, kept outside the process that will be killed.

The writer sends each one through a pipe. Each has the same small size, so the pipe
takes it whole or not at all. The parent counts an acknowledgement when it has read it.
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
"""One acknowledgement: the job, and the range of its records."""

Acks = NDArray[np.void]
"""An array of ``ACK_DTYPE``."""

_READ_BYTES = 65536


def send_ack(pipe: int, job: int, appended: Appended) -> None:
    """
    Sends the acknowledgement of *job* to the parent. Any thread.
    """
    ack = (job, appended.offset, appended.end, appended.count)
    os.write(pipe, np.array(ack, ACK_DTYPE).tobytes())


def read_acks(pipe: int) -> Iterator[Acks]:
    """
    Yields acknowledgements as they arrive, until the pipe is closed.

    An incomplete one at the end does not count.
    """
    rest = b""
    while data := os.read(pipe, _READ_BYTES):
        data = rest + data
        whole = len(data) - len(data) % ACK_DTYPE.itemsize
        rest = data[whole:]
        if whole:
            yield np.frombuffer(data[:whole], ACK_DTYPE)
