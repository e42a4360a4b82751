"""
The facts behind the stop of a scan.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.store.stores import SEGMENT, fill

from pystore.bindings.ffi import Stop
from pystore.core.log_reader import LogReader
from pystore.recovery.behind import Behind, look_behind
from pystore.recovery.segments import Segments
from pystore.recovery.survey import CHECKS
from pystore.store.commit_log import CommitLog


@pytest.fixture
def offsets(tmp_path: Path) -> list[int]:
    """
    The records of a store of two segments.
    """
    with CommitLog(tmp_path / "s", segment_size=SEGMENT) as log:
        return fill(log, 400)


def _behind(root: Path, at: int, data: bytes) -> tuple[int, Stop, Behind]:
    with (root / "commitlog" / f"{at // SEGMENT * SEGMENT:020d}").open("r+b") as file:
        file.seek(at % SEGMENT)
        file.write(data)
    with LogReader(root) as log:
        segments = Segments(log)
        stop = segments.scan_end(0, CHECKS)
        return stop.offset, stop.stop, look_behind(segments, stop.offset, stop.stop)


def test_behind_changed_bytes_stands_the_next_record(
    tmp_path: Path, offsets: list[int]
) -> None:
    """
    None of its sectors is zero.
    """
    at, _, behind = _behind(tmp_path / "s", offsets[50] + 5, b"\xff\xff")

    assert offsets[50] == at
    assert (offsets[51], False) == (behind.record, behind.has_lost_sector)


def test_a_zeroed_page_hides_whole_records(tmp_path: Path, offsets: list[int]) -> None:
    """
    The scan stops inside the record before it, or at the zeros.
    """
    page = offsets[50] // 4096 * 4096
    at, _, behind = _behind(tmp_path / "s", page, bytes(4096))

    assert at <= page
    assert behind.record == next(one for one in offsets if one >= page + 4096)
    assert behind.has_lost_sector


def test_the_end_of_a_log_has_nothing_behind_it(
    tmp_path: Path, offsets: list[int]
) -> None:
    """
    The rest of the segment is zero.
    """
    with LogReader(tmp_path / "s") as log:
        segments = Segments(log)
        stop = segments.scan_end(0, CHECKS)
        behind = look_behind(segments, stop.offset, stop.stop)

    assert stop.offset > offsets[-1]
    assert (Stop.ZERO, None) == (stop.stop, behind.record)


def test_the_next_segment_is_behind_a_segment_that_ends_early(
    tmp_path: Path, offsets: list[int]
) -> None:
    """
    The rest of the segment is lost, up to its end.
    """
    last = max(one for one in offsets if one < SEGMENT)
    at, _, behind = _behind(tmp_path / "s", last, bytes(SEGMENT - last))

    assert last == at
    assert (SEGMENT, True) == (behind.record, behind.has_lost_sector)
