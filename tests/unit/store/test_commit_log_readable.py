"""
The reading half of a log.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.store.stores import SEGMENT, fill, message

from pystore.errors import CorruptError
from pystore.store.commit_log import CommitLog


def test_a_range_is_scanned_and_lent_without_a_copy(tmp_path: Path) -> None:
    """
    Rows and blocks of a range have the same bytes.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        offsets = fill(log, 1000)
        rows = next(iter(log.scan(offsets[10], offsets[13])))
        data = b"".join(block.view for block in log.blocks(offsets[10], offsets[13]))

        assert offsets[10:13] == rows["offset"].tolist()
        assert ["Topic"] * 3 == [log.topic(int(row)) for row in rows["topic_id"]]
        assert rows["size"].sum() == len(data)
        assert message(11).body in data
        assert 1000 == sum(len(rows) for rows in log)


def test_reading_where_no_record_begins_is_one_clear_error(tmp_path: Path) -> None:
    """
    The error has the offset.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        offsets = fill(log, 3)
        with pytest.raises(CorruptError, match=f"offset {offsets[1] + 4}"):
            log.read(offsets[1] + 4)


def test_a_scan_never_ends_silently_at_damage(tmp_path: Path) -> None:
    """
    All rows below the bad record are yielded, then the error; or the cursor has it.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        offsets = fill(log, 20)
        with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
            file.seek(offsets[7] + 4)
            file.write(b"\xff")
        failing = log.scan()
        seen = next(failing)["offset"].tolist()
        with pytest.raises(CorruptError, match=str(offsets[7])) as caught:
            next(failing)
        scan = log.scan(stops_at_damage=True)

        assert offsets[:7] == seen
        assert offsets[7] == caught.value.offset
        assert 7 == sum(len(rows) for rows in scan)
        assert offsets[7] == scan.cursor.offset
