"""
Splits: values that travel.
"""

from __future__ import annotations

import pickle

from pystore.errors import CutError, OffsetOutOfRange
from pystore.spark.plan.split import Split, segment_gone


def test_a_split_ends_with_its_segment_or_the_log() -> None:
    """
    Nothing above the log's end is read, as it was when the work was planned.
    """
    split = Split("/s", 1000, 500, 1000, 1500, 1400)

    assert 1400 == split.limit
    assert 1500 == Split("/s", 1000, 500, 1000, 1500, 9999).limit
    assert split == pickle.loads(pickle.dumps(split))


def test_a_walk_begins_with_the_segment_or_where_a_record_is_known() -> None:
    """
    A stream knows where its batches end.
    """
    assert 1000 == Split("/s", 1000, 500, 1200, 1500, 1400).first
    assert 1100 == Split("/s", 1000, 500, 1200, 1500, 1400, record_at=1100).first


def test_a_segment_that_is_gone_was_deleted_or_cut() -> None:
    """
    From the front or from the end of the log.
    """
    split = Split("/s", 1000, 500, 1000, 1500, 1400)

    for bases in ([], [1500, 2000]):
        assert isinstance(segment_gone(split, bases), OffsetOutOfRange)
    assert isinstance(segment_gone(split, [0, 500]), CutError)
    assert "/s/commitlog/00000000000000001000: the log was cut" in str(
        segment_gone(split, [0])
    )
