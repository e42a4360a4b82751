"""
Scans and what they mean.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.store.stores import SEGMENT, fill, kill_while

from pystore.core.log_reader import LogReader
from pystore.recovery.segments import Segments, nonzero_end
from pystore.recovery.survey import survey_ours
from pystore.recovery.torn_tail import Bound, Corrupt, Torn, Whole
from pystore.store.commit_log import CommitLog


def test_the_last_byte_that_is_not_zero_is_found_across_segments(
    tmp_path: Path,
) -> None:
    """
    What a cut takes away is counted to the last byte.
    """
    root = tmp_path / "store"
    kill_while(root, lambda log: fill(log, 1000))
    with LogReader(root) as log:
        segments = Segments(log)
        end = log.scan(0).finish().offset

        assert end == nonzero_end(root, segments, 100)
        assert end == nonzero_end(root, segments, end)
        assert segments.end > end


@pytest.mark.parametrize("is_lost", [True, False])
def test_above_the_bound_only_a_lost_sector_is_a_torn_tail(
    tmp_path: Path, is_lost: bool
) -> None:
    """
    Two changed bytes are damage on both sides of the bound; a zeroed sector is damage
    below it and a torn tail above.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        offsets = fill(log, 100)
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(offsets[50] + 9)
        file.write(bytes(1024) if is_lost else b"\xff\xff")
    with LogReader(root) as log:
        segments = Segments(log)
        below = survey_ours(segments, Bound(offsets[60]), 0)
        above = survey_ours(segments, Bound(offsets[50]), 0)

    assert isinstance(below.verdict, Corrupt)
    assert isinstance(above.verdict, Torn if is_lost else Corrupt)
    assert offsets[50] == below.end_offset == above.end_offset


def test_nothing_above_an_unfinished_cut_is_scanned(tmp_path: Path) -> None:
    """
    The scan of an unfinished cut ends at its offset (A3).
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        offsets = fill(log, 100)
    with LogReader(root) as log:
        found = survey_ours(Segments(log), Bound(0), 0, limit=offsets[10])

    assert isinstance(found.verdict, Whole)
    assert (offsets[10], 10) == (found.end_offset, found.records)
