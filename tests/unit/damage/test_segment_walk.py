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
from pystore.damage.segment_walk import SegmentReport, walk_segment
from pystore.message.columns import gather_columns
from pystore.message.message import Message
from pystore.store.commit_log import CommitLog
from pystore.verify.coverage import uncovered_bytes

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


def walked(root: Path) -> SegmentReport:
    """
    Walks over the first segment.
    """
    with LogReader(root) as log:
        return walk_segment(log, 0, SEGMENT, ignore, uncovered=uncovered_bytes)


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
        found = walk_segment(
            log,
            0,
            SEGMENT,
            lambda rows: offsets.extend(rows["offset"]),
            uncovered=uncovered_bytes,
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
    found = walked(root)

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
    found = walked(root)

    (fault,) = found.faults
    assert (int(row["offset"]), int(row["size"])) == (fault.offset, fault.skipped_bytes)


@pytest.mark.parametrize(
    ("at", "data", "stop"),
    [
        (0, b"\x7f", Stop.SIZE),
        (4, b"\0", Stop.MAGIC),
        (0, bytes(8), Stop.ZERO),
        (0, b"\0\0\0\x64", Stop.LENGTHS),
    ],
    ids=["size", "magic", "zeros", "lengths"],
)
def test_a_bad_record_hides_only_itself(
    root: Path, at: int, data: bytes, stop: Stop
) -> None:
    """
    The next record proves its place, whatever the bad one says of its size.
    """
    row = rows_of(root)[7]
    start, count = int(row["offset"]), len(rows_of(root))
    damage(root, start + at, data)

    found = walked(root)

    (fault,) = found.faults
    assert (start, stop) == (fault.offset, fault.stop)
    assert int(row["size"]) == fault.skipped_bytes
    assert (SEGMENT, count - 1, True) == (
        found.end_offset,
        found.records,
        found.is_full,
    )


def test_two_damages_are_two_faults(root: Path) -> None:
    """
    A wrong size does not hide a wrong body behind it.
    """
    rows = rows_of(root)
    damage(root, int(rows[3]["offset"]), b"\x7f")
    damage(root, int(rows[9]["offset"] + rows[9]["body_at"]), b"X")

    found = walked(root)

    assert rows["offset"][[3, 9]].tolist() == [one.offset for one in found.faults]
    assert len(rows) - 2 == found.records


@pytest.mark.parametrize("index", [0, 5, -1])
def test_a_property_crc_that_differs_among_records_that_are_proved_is_damage(
    root: Path, index: int
) -> None:
    """
    The writer made one for each record, so this one is of bytes that changed.
    """
    row = rows_of(root)[index]
    damage(root, int(row["offset"]) + 15, b"\x09")

    found = walked(root)
    (fault,) = found.faults

    assert (int(row["offset"]), Stop.PROPERTY) == (fault.offset, fault.stop)
    assert (len(rows_of(root)) - 1, 0) == (found.records, found.unproved)


def test_a_copied_property_crc_among_records_without_one_is_no_damage(
    tmp_path: Path,
) -> None:
    """
    Brokers copy it with the properties of a message that they put again (A6).
    """
    copied = b"__CRC32#\x010123456789\x02"
    with CommitLog(tmp_path / "s", segment_size=SEGMENT, property_crc=False) as log:
        log.append_columns(gather_columns("topic", [b"body"] * 9))
        offset = log.end_offset
        log.append(Message("topic", b"again", properties={"k": "v" * 17}))
        log.append_columns(gather_columns("topic", [b"body"] * 9))
    path = tmp_path / "s" / "commitlog" / f"{0:020d}"
    data = path.read_bytes()
    at = data.index(b"k\x01" + b"v" * 17, offset)
    size = len(b"k\x01" + b"v" * 17)
    assert size + 1 == len(copied)
    path.write_bytes(data[:at] + copied[: size + 1] + data[at + size + 1 :])

    found = walked(tmp_path / "s")

    assert () == found.faults
    assert (19, 19) == (found.records, found.unproved)
