"""
A scan goes on behind damage, and says what it leaves out.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from lib.store.segment_files import flip, segment, write
from lib.store.stores import SEGMENT, fill

from pystore.bindings.ffi import Check
from pystore.core.log_reader import LogReader
from pystore.core.options import LogOptions
from pystore.damage.past_damage import rows_past_damage
from pystore.errors import CorruptError
from pystore.store.commit_log import CommitLog

Left = list[tuple[int, int]]


@pytest.fixture
def store(tmp_path: Path) -> tuple[Path, list[int]]:
    """
    A closed store of several segments, and the offsets of its records.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        offsets = fill(log, 1500)
    assert offsets[-1] > 3 * SEGMENT
    return root, offsets


def scanned(
    root: Path, start: int, end: int, checks: Check = Check.OFFSET
) -> tuple[list[int], Left]:
    """
    The offsets of the rows, and the ranges that were left out.
    """
    left: Left = []

    def note(error: CorruptError, behind: int) -> None:
        assert error.offset is not None
        assert error.path == str(root)
        left.append((error.offset, behind))

    with LogReader(root, LogOptions(serves_ill=True)) as log:
        log.limit(end)
        found = rows_past_damage(log, start, end, checks, rows=64, on_damage=note)
        return [int(one) for rows in found for one in rows["offset"]], left


def ends(root: Path) -> int:
    """
    The end of the log.
    """
    with CommitLog(root, mode="r") as log:
        return log.end_offset


@pytest.mark.parametrize("at", [0, 700, -1], ids=["first", "middle", "last"])
@pytest.mark.parametrize("byte", [1, 4, 20, 30], ids=["size", "magic", "queue", "own"])
def test_one_bad_record_hides_no_other(
    store: tuple[Path, list[int]], at: int, byte: int
) -> None:
    """
    Also one whose size is wrong, and the last of the log.
    """
    root, offsets = store
    end = ends(root)
    bad = offsets[at]
    flip(segment(root, bad - bad % SEGMENT), bad % SEGMENT + byte)
    behind = [*offsets, end][offsets.index(bad) + 1]

    found, left = scanned(root, 0, end, Check.OFFSET | Check.PROPERTY)

    assert [one for one in offsets if one != bad] == found
    assert [(bad, behind)] == left


def test_bytes_that_are_not_there_are_left_out(
    store: tuple[Path, list[int]],
) -> None:
    """
    A missing segment and a short one, behind each other.
    """
    root, offsets = store
    end = ends(root)
    segment(root, SEGMENT).unlink()
    os.truncate(segment(root, 2 * SEGMENT), 1000)

    found, left = scanned(root, 0, end)

    low = 2 * SEGMENT + 1000
    sizes = dict(zip(offsets, [*offsets[1:], end], strict=True))
    assert [
        one
        for one in offsets
        if one < SEGMENT
        or (one >= 2 * SEGMENT and sizes[one] <= low)
        or one >= 3 * SEGMENT
    ] == found
    assert [(SEGMENT, 2 * SEGMENT), (found[-1], 0)][:1] == left[:1]
    assert 3 * SEGMENT == left[1][1]
    assert 2 == len(left)


def test_zeros_within_a_log_are_left_out(store: tuple[Path, list[int]]) -> None:
    """
    Nothing was written there, but the log goes on.
    """
    root, offsets = store
    write(segment(root, 0), offsets[3], bytes(offsets[5] - offsets[3]))

    found, left = scanned(root, 0, ends(root))

    assert offsets[:3] + offsets[5:] == found
    assert [(offsets[3], offsets[5])] == left


def test_a_range_may_end_within_a_record(store: tuple[Path, list[int]]) -> None:
    """
    That is the caller's choice, and no damage.
    """
    root, offsets = store
    with LogReader(root) as log:
        log.limit(offsets[-1])
        rows = rows_past_damage(log, offsets[2], offsets[9] + 1, Check.OFFSET, rows=8)
        assert offsets[2:9] == [int(one) for part in rows for one in part["offset"]]
