"""
A store says where its log begins and ends, and what is whole in it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.command_line import SEGMENT, make_store, overwrite, segment_file
from lib.oracle.golden_data import GoldenStore

from pystore.compare.differing import DifferingRange
from pystore.compare.side import StoreSide
from pystore.errors import CutError, NotAStoreError
from pystore.message.message import Message
from pystore.store.commit_log import CommitLog


def test_the_ends_are_those_of_a_reader(
    golden_store: GoldenStore, golden_root: Path
) -> None:
    """
    Of every golden store.
    """
    found = StoreSide(golden_root).summary()
    with CommitLog(golden_root, mode="r") as log:
        assert (log.min_offset, log.end_offset) == (found.min_offset, found.end_offset)
        assert (log.ends.segment_size, "") == (found.segment_size, found.tail_reason)
    assert "" == found.epochs_error
    assert golden_store.records


def test_an_end_in_damage_is_behind_the_last_whole_record(tmp_path: Path) -> None:
    """
    Without a live page, as after a restart of the machine.
    """
    root = make_store(tmp_path / "s")
    (root / "meta" / "live").unlink()
    with CommitLog(root, mode="r") as log:
        offsets = [int(at) for rows in log.scan() for at in rows["offset"]]
        end, base = log.end_offset, log.reader.segments()[-1]
    behind = [one for one in offsets if one >= base]
    overwrite(segment_file(root, base), behind[3] + 60 - base, b"bad")
    assert (end, "") == _end(root)
    overwrite(segment_file(root, base), behind[-1] + 4 - base, b"bad")
    found, reason = _end(root)

    assert behind[-1] == found
    assert "record at offset" in reason


def _end(root: Path) -> tuple[int, str]:
    found = StoreSide(root).summary()
    return found.end_offset, found.tail_reason


def test_an_empty_store_begins_and_ends_at_0(tmp_path: Path) -> None:
    """
    It has no segment.
    """
    with CommitLog(tmp_path / "s", segment_size=SEGMENT):
        pass
    found = StoreSide(tmp_path / "s").summary()

    assert (0, 0) == (found.min_offset, found.end_offset)
    with pytest.raises(NotAStoreError):
        StoreSide(tmp_path / "missing")


def test_a_range_is_judged_by_its_records(tmp_path: Path) -> None:
    """
    Whole, damaged, unproved, blank or missing.
    """
    root = make_store(tmp_path / "s", records=3000)
    with CommitLog(root, mode="r") as log:
        offsets = [int(at) for rows in log.scan() for at in rows["offset"]]
    last = max(one for one in offsets if one < SEGMENT)
    overwrite(segment_file(root), offsets[5] + 60, b"bad")
    ranges = [
        DifferingRange(offsets[3] + 20, offsets[3] + 21),
        DifferingRange(offsets[5] + 20, offsets[5] + 21),
        DifferingRange(last + 200, SEGMENT),
        DifferingRange(SEGMENT, SEGMENT + 1, ("missing", "unreadable")),
    ]
    side = StoreSide(root)
    states, record = side.judge(ranges, 0)

    verdicts = ["whole", "damaged", "no record", "missing"]
    assert verdicts == [one.verdict for one in states]
    assert record is not None
    assert offsets[3] == record["offset"]
    assert "unreadable" == side.judge(ranges, 1)[0][3].verdict
    bare = make_store(tmp_path / "b", property_crc=False)
    assert "unproved" == StoreSide(bare).judge(ranges[:1], 0)[0][0].verdict


def test_a_cut_meanwhile_is_told(tmp_path: Path) -> None:
    """
    What was compared may be of two histories.
    """
    with CommitLog(tmp_path / "s", segment_size=SEGMENT) as log:
        end = log.append(Message("t", b"body")).end
        log.append(Message("t", b"body"))
        side = StoreSide(tmp_path / "s")
        side.unchanged()
        log.cut(end)
        with pytest.raises(CutError):
            side.unchanged()
