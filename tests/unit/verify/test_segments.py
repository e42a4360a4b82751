"""
One segment is scanned to its end, also after bad records if possible.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pystore.bindings.ffi import Stop
from pystore.core.log_reader import LogReader
from pystore.message.columns import gather_columns
from pystore.store.commit_log import CommitLog
from pystore.verify.segments import scan_segment

SEGMENT = 32768


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """
    A store with a full segment and a part of one.
    """
    with CommitLog(tmp_path / "s", segment_size=SEGMENT) as log:
        log.append_columns(gather_columns("topic", [b"body"] * 300))
    return tmp_path / "s"


def ignore(_rows: NDArray[Any]) -> None:
    """
    Ignores the rows.
    """


def rows_of(root: Path) -> NDArray[Any]:
    """
    Returns every row of the first segment.
    """
    with LogReader(root) as log:
        return np.concatenate(list(log.scan(0, SEGMENT)))


def damage(root: Path, at: int, data: bytes) -> None:
    """
    Overwrites bytes of the first segment.
    """
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(at)
        file.write(data)


def test_a_whole_segment_is_scanned_to_its_end(root: Path) -> None:
    """
    Every row is passed on once, and the blank record is part of the segment.
    """
    offsets: list[int] = []
    with LogReader(root) as log:
        found = scan_segment(
            log, 0, SEGMENT, lambda rows: offsets.extend(rows["offset"])
        )

    rows = rows_of(root)
    assert rows["offset"].tolist() == offsets
    assert (SEGMENT, True, ()) == (found.end_offset, found.is_full, found.faults)
    assert (len(rows), int(rows["size"].sum())) == (found.records, found.row_bytes)
    assert SEGMENT == found.scanned_bytes
    assert int(rows[-1]["offset"] + rows[-1]["size"]) == found.record_end


@pytest.mark.parametrize("count", [1, 2])
def test_the_scan_continues_after_a_bad_body(root: Path, count: int) -> None:
    """
    The size leads to the next record, even if that record is bad, too.
    """
    rows = rows_of(root)
    for row in rows[5 : 5 + count]:
        damage(root, int(row["offset"] + row["body_at"]), b"X")
    with LogReader(root) as log:
        found = scan_segment(log, 0, SEGMENT, ignore)

    assert len(rows) - count == found.records
    assert found.is_full
    assert rows["offset"][5 : 5 + count].tolist() == [f.offset for f in found.faults]
    assert {Stop.BODY, Stop.PROPERTY} >= {fault.stop for fault in found.faults}
    assert [5] * count == [fault.records_before for fault in found.faults]
    lost = int(rows["size"][5 : 5 + count].sum())
    assert SEGMENT - lost == found.scanned_bytes


def test_the_last_record_of_a_segment_may_be_bad(root: Path) -> None:
    """
    The blank record follows it.
    """
    row = rows_of(root)[-1]
    damage(root, int(row["offset"] + row["body_at"]), b"X")
    with LogReader(root) as log:
        found = scan_segment(log, 0, SEGMENT, ignore)

    (fault,) = found.faults
    assert (int(row["offset"]), int(row["size"])) == (fault.offset, fault.skipped_bytes)


def test_after_a_wrong_size_the_rest_of_the_segment_is_skipped(root: Path) -> None:
    """
    The start of the next record is unknown.
    """
    row = rows_of(root)[7]
    at = int(row["offset"])
    damage(root, at, b"\x7f")
    with LogReader(root) as log:
        found = scan_segment(log, 0, SEGMENT, ignore)

    (fault,) = found.faults
    assert (at, Stop.SIZE) == (fault.offset, fault.stop)
    assert SEGMENT - at == fault.skipped_bytes
    assert (at, 7, False) == (found.end_offset, found.records, found.is_full)
