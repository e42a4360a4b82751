"""
Acknowledgements outlive the process that sent them.
"""

from __future__ import annotations

import os

import numpy as np

from pystore.core.results import Appended
from pystore.demo.ack_channel import ACK_DTYPE, read_acks, send_ack


def test_acknowledgements_are_read_in_order() -> None:
    """
    Even if they were sent long before.
    """
    reading, writing = os.pipe()
    for job in range(100):
        send_ack(writing, job, Appended(job * 10, job * 10 + 5, 0, 0, 3))
    os.close(writing)
    found = np.concatenate(list(read_acks(reading)))
    os.close(reading)

    assert [(job, job * 10, job * 10 + 5, 3) for job in range(100)] == found.tolist()


def test_half_an_acknowledgement_at_the_end_does_not_count() -> None:
    """
    One that arrives in two parts counts once.
    """
    reading, writing = os.pipe()
    whole = np.array((7, 1, 2, 3), ACK_DTYPE).tobytes()
    os.write(writing, whole[:9])
    acks = read_acks(reading)
    os.write(writing, whole[9:] + whole[:31])
    os.close(writing)
    found = np.concatenate(list(acks))
    os.close(reading)

    assert [(7, 1, 2, 3)] == found.tolist()
