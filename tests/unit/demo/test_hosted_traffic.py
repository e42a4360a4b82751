"""
What a consumer read is compared with what was acknowledged.
"""

from __future__ import annotations

import numpy as np
import pytest

from pystore.demo.hosted_traffic import missing_records
from pystore.demo.stream_writer import StreamedAck


@pytest.mark.parametrize(
    ("read", "missing"),
    [
        ([0, 10, 20, 30, 40], 0),
        ([0, 10, 30, 40], 1),
        ([0, 40], 3),
        ([], 4),
        ([0, 10, 20, 25, 30, 40], 0),
    ],
)
def test_acknowledged_records_that_were_not_read_are_counted(
    read: list[int], missing: int
) -> None:
    """
    By their ranges; what was not acknowledged between them does not hide one.
    """
    acks = [StreamedAck(7, 10, 30, 2, 1), StreamedAck(8, 30, 50, 2, 1)]
    assert missing == missing_records(acks, np.array(read, np.int64))


def test_without_an_acknowledgement_nothing_is_missing() -> None:
    """
    Whatever was read.
    """
    assert 0 == missing_records([], np.array([1, 2], np.int64))
