"""
The records of a segment below a log that have an entry in their queue.
"""

from __future__ import annotations

import numpy as np
import pytest

from pystore.consumequeue.below import below_first
from pystore.consumequeue.build import Group
from pystore.consumequeue.queue import ENTRY_DTYPE


def group(*indexes: int) -> Group:
    """
    Records of 100 bytes with these queue offsets.
    """
    entries = np.zeros(len(indexes), ENTRY_DTYPE)
    entries["offset"] = 100 * np.arange(len(indexes))
    entries["size"] = 100
    return Group("T", 0, np.array(indexes, np.int64), entries)


@pytest.mark.parametrize(
    ("indexes", "limit", "chosen"),
    [
        ([3, 4, 5], 6, [3, 4, 5]),
        ([3, 4, 5], None, [3, 4, 5]),
        ([3, 5, 9], 12, [3, 5, 9]),  # the log lost records between
        ([7, 8, 0, 1], 2, [0, 1]),  # the topic was made again within the segment
        ([7, 8], 0, []),  # and behind it
        ([7, 8], 8, []),
        ([5, 5, 6], 7, [5, 6]),
        ([-4, 2], 3, [2]),
        ([2, -4], 3, []),
        ([], 3, []),
    ],
)
def test_the_last_rising_queue_offsets_are_those_of_the_queue(
    indexes: list[int], limit: int | None, chosen: list[int]
) -> None:
    """
    Below the first record that the queue has.
    """
    found = below_first(group(*indexes), limit)

    assert chosen == found.indexes.tolist()
    first = len(indexes) - len(chosen)
    expected = list(range(100 * first, 100 * len(indexes), 100))
    assert expected == found.entries["offset"].tolist()
