"""
Whole records are handed over in blocks, and the bytes between are named.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from lib.command_line import SEGMENT, make_store, overwrite, segment_file

from pystore.damage.segment_walk import walk_segment
from pystore.errors import FullError, StorageError
from pystore.message.message import Message
from pystore.salvage import records
from pystore.salvage.pieces import find_pieces
from pystore.salvage.records import RecordBlock, walk_pieces
from pystore.salvage.report import SalvageReport
from pystore.store.commit_log import CommitLog


def walk(root: Path) -> tuple[list[int], SalvageReport]:
    """
    The offsets of the whole records, and what is left.
    """
    offsets: list[int] = []
    report = SalvageReport()

    def take(block: RecordBlock) -> None:
        first, last = block.rows[0], block.rows[-1]
        assert block.offset == first["offset"]
        size = int(last["offset"]) + int(last["size"]) - block.offset
        assert size == len(block.data)
        assert "topic" == block.topic(int(first["topic_id"]))
        offsets.extend(block.rows["offset"].tolist())

    walk_pieces(find_pieces(root), take, report)
    return offsets, report


def all_offsets(root: Path) -> list[int]:
    """
    Those of an undamaged store.
    """
    with CommitLog(root, mode="r") as log:
        return [int(one) for rows in log.scan() for one in rows["offset"]]


def test_a_whole_store_leaves_nothing_behind(tmp_path: Path) -> None:
    """
    Blank records and the zeros above the end are no bytes of records.
    """
    root = make_store(tmp_path / "s")
    found, report = walk(root)

    assert all_offsets(root) == found
    assert report.is_complete


def test_damage_hides_only_itself(tmp_path: Path) -> None:
    """
    A flipped byte, a missing and a short segment: each is a range with its path.
    """
    root = make_store(tmp_path / "s", records=3000)
    offsets = all_offsets(root)
    overwrite(segment_file(root), offsets[5] + 2, b"\xff")
    segment_file(root, SEGMENT).unlink()
    short = segment_file(root, 2 * SEGMENT)
    end = next(one for one in offsets if one > 2 * SEGMENT + 10000)
    short.write_bytes(short.read_bytes()[: end - 2 * SEGMENT])
    found, report = walk(root)

    expected = [
        one
        for one in offsets
        if (one < SEGMENT and one != offsets[5]) or 2 * SEGMENT <= one < end
    ]
    expected += [one for one in offsets if one >= 3 * SEGMENT]
    assert expected == found
    ranges = [(one.path, one.offset, one.size) for one in report.left]
    assert [
        (str(segment_file(root)), offsets[5], offsets[6] - offsets[5]),
        (str(segment_file(root, SEGMENT)), SEGMENT, SEGMENT),
        (str(short), end, 3 * SEGMENT - end),
    ] == ranges
    assert ["the file is missing", "the file ends early"] == [
        one.reason for one in report.left[1:]
    ]


def test_blocks_are_bounded_and_a_large_record_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Memory does not grow with a segment.
    """
    monkeypatch.setattr(records, "_BLOCK_BYTES", 2000)
    sizes: list[int] = []
    with CommitLog(tmp_path / "s", segment_size=SEGMENT) as log:
        for size in (10, 5000, 900, 900, 10):
            log.append(Message("topic", bytes(size)))
    walk_pieces(
        find_pieces(tmp_path / "s"),
        lambda block: sizes.append(len(block.rows)),
        SalvageReport(),
    )

    assert [1, 1, 1, 2] == sizes


def test_an_error_of_the_caller_is_no_damage(tmp_path: Path) -> None:
    """
    A full disk of the target ends the walk.
    """
    root = make_store(tmp_path / "s")

    def refuse(_block: RecordBlock) -> None:
        raise FullError("full", errno=errno.EDQUOT)

    with pytest.raises(FullError):
        walk_pieces(find_pieces(root), refuse, SalvageReport())


def test_a_file_that_the_disk_cannot_read_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The others are walked; a file without permission is an error.
    """
    root = make_store(tmp_path / "s")
    number = errno.EIO

    def fail(log: Any, base: int, *arguments: Any, **options: Any) -> Any:
        if base == SEGMENT:
            raise StorageError("no", errno=number)
        return walk_segment(log, base, *arguments, **options)

    monkeypatch.setattr(records, "walk_segment", fail)
    found, report = walk(root)
    assert [(SEGMENT, SEGMENT)] == [(one.offset, one.size) for one in report.left]
    assert [one for one in all_offsets(root) if one // SEGMENT != 1] == found
    number = errno.EACCES
    with pytest.raises(StorageError):
        walk(root)
