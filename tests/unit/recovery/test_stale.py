"""
Stale records are told by queue offsets.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pystore.bindings.row import RECORD_DTYPE
from pystore.consumequeue.queues import ConsumeQueues
from pystore.recovery.stale import QueueOrder


def _rows(*places: tuple[int, int], first: int = 0) -> NDArray[Any]:
    """
    Records of the queues and with the queue offsets of *places*.
    """
    rows = np.zeros(len(places), RECORD_DTYPE)
    rows["offset"] = np.arange(first, first + len(places)) * 100
    rows["size"] = 100
    rows["queue_id"] = [queue for queue, _ in places]
    rows["queue_offset"] = [offset for _, offset in places]
    return rows


@pytest.mark.parametrize(
    ("places", "stale"),
    [
        ([(0, 5), (0, 6), (1, 9), (0, 7), (1, 10)], None),
        ([(0, 5), (0, 6), (0, 6)], 200),
        ([(0, 5), (0, 6), (0, 8)], 200),
        ([(0, 5), (1, 7), (0, 4), (1, 9)], 200),
        ([(0, 5), (0, 0), (0, 1)], None),
    ],
    ids=["in order", "a repeat", "a gap", "the first of two", "a new topic"],
)
def test_a_repeat_or_a_gap_is_stale(
    tmp_path: Path, places: list[tuple[int, int]], stale: int | None
) -> None:
    """
    A restart at 0 belongs to a topic that was made anew.
    """
    order = QueueOrder(ConsumeQueues(tmp_path, 200), lambda _: "T")

    assert stale == order.first_stale(_rows(*places))


def test_the_order_goes_on_from_batch_to_batch(tmp_path: Path) -> None:
    """
    The first record of a queue may have any offset, a later one may not.
    """
    order = QueueOrder(ConsumeQueues(tmp_path, 200), lambda _: "T")

    assert order.first_stale(_rows((0, 5), (0, 6))) is None
    assert order.first_stale(_rows((0, 7), (0, 7), first=2)) == 300
