"""
The records that a query may need: conditions only narrow.
"""

from __future__ import annotations

import numpy as np

from pystore.bindings.row import RECORD_DTYPE
from pystore.spark.plan.selection import Selection

TOPICS = ["A", "B"]


def test_bounds_only_narrow() -> None:
    """
    In any order.
    """
    found = Selection().offsets(10, None).offsets(5, 90).offsets(None, 80)
    found = found.times(1, None).times(0, 9).times(None, 20)
    found = found.only_topics(frozenset("AB")).only_topics(frozenset("BC"))
    found = found.only_queues(frozenset([1, 2])).only_queues(frozenset([2, 3]))

    assert Selection(frozenset("B"), frozenset([2]), 10, 80, 1, 9) == found


def test_rows_that_cannot_be_wanted_are_left_out() -> None:
    """
    Without a condition there is no mask.
    """
    rows = np.zeros(4, RECORD_DTYPE)
    rows["topic_id"] = [0, 1, 0, 1]
    rows["queue_id"] = [0, 0, 1, 1]
    rows["store_ms"] = [10, 20, 30, 40]

    def mask(selection: Selection) -> list[int] | None:
        found = selection.mask(rows, TOPICS.__getitem__)
        return None if found is None else np.flatnonzero(found).tolist()

    assert mask(Selection()) is None
    assert [1, 3] == mask(Selection(topics=frozenset("B")))
    assert [] == mask(Selection(topics=frozenset("C")))
    assert [2] == mask(Selection(topics=frozenset("A"), queues=frozenset([1])))
    assert [1, 2] == mask(Selection(from_ms=20, to_ms=30))
    rows["queue_offset"] = [5, 6, 7, 8]
    assert [1, 2] == mask(Selection().queue_offsets(6, None).queue_offsets(0, 8))
    assert [1, 3] == mask(Selection(topic_globs=("[B-D]", "X*")))
    assert [] == mask(Selection(topics=frozenset("A"), topic_globs=("B*",)))
    assert [1, 3] == mask(Selection().only_like(("B*",)))
    assert Selection(topics=frozenset("AB")) == Selection().only_like(("A", "B"))
