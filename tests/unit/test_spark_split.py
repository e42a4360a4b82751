"""
Splits: values that travel.
"""

from __future__ import annotations

import pickle

from pystore.spark.split import Split


def test_a_split_ends_with_its_segment_or_the_log() -> None:
    """
    Nothing above the log's end is read, as it was when the work was planned.
    """
    split = Split("/s", 1000, 500, 1000, 1500, 1400)

    assert 1400 == split.limit
    assert 1500 == Split("/s", 1000, 500, 1000, 1500, 9999).limit
    assert split == pickle.loads(pickle.dumps(split))
