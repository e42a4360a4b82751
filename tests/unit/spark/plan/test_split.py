"""
Splits: plain values for tasks.
"""

from __future__ import annotations

import pickle
from dataclasses import replace

from pystore.errors import CutError, OffsetOutOfRange
from pystore.spark.plan.split import Split, segment_gone


def test_a_split_ends_with_its_segment_or_the_log() -> None:
    """
    Nothing above the log's end of the planning time is read.
    """
    split = Split("/s", 1000, 500, 1000, 1500, 1400)

    assert 1400 == split.limit
    assert 1500 == Split("/s", 1000, 500, 1000, 1500, 9999).limit
    assert split == pickle.loads(pickle.dumps(split))


def test_a_scan_begins_with_the_segment_or_at_a_known_record() -> None:
    """
    A stream knows the starts of its batches.
    """
    assert 1000 == Split("/s", 1000, 500, 1200, 1500, 1400).first
    assert 1100 == Split("/s", 1000, 500, 1200, 1500, 1400, record_at=1100).first


def test_an_ill_segment_ends_where_its_bytes_do() -> None:
    """
    Any other ends with the log.
    """
    split = Split("/s", 1000, 500, 1000, 1500, 1400)

    assert 1400 == split.lost_from
    assert 1200 == replace(split, ill=(1200, "short")).lost_from


def test_a_missing_segment_was_deleted_or_cut() -> None:
    """
    Deleted at the start of the log, or cut at its end.
    """
    split = Split("/s", 1000, 500, 1000, 1500, 1400)

    for bases in ([], [1500, 2000]):
        assert isinstance(segment_gone(split, bases), OffsetOutOfRange)
    assert isinstance(segment_gone(split, [0, 500]), CutError)
    assert "/s/commitlog/00000000000000001000: the log was cut" in str(
        segment_gone(split, [0])
    )
