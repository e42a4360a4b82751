"""
The content of a directory: segments, odd ones, and orphans.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from pystore.errors import NotAStoreError, PystoreError
from pystore.spark.verify.segment_list import SegmentList, list_segments

SIZE = 4096


def make(root: Path, bases: Iterable[int], size: int = SIZE) -> Path:
    """
    Files of given sizes, named by their base offsets.
    """
    folder = root / "commitlog"
    folder.mkdir(exist_ok=True)
    for base in bases:
        (folder / f"{base:020d}").write_bytes(bytes(size))
    return folder


def names(listing: SegmentList) -> list[str]:
    """
    The names of the orphans.
    """
    return [name for name, _ in listing.orphans]


def test_segments_that_follow_each_other_are_one_run(tmp_path: Path) -> None:
    """
    All files have the same size.
    """
    make(tmp_path, [SIZE, 2 * SIZE, 3 * SIZE])

    found = list_segments(tmp_path)

    assert (SIZE, (SIZE, 2 * SIZE, 3 * SIZE)) == (found.segment_size, found.bases)
    assert [(SIZE, 2 * SIZE, 3 * SIZE)] == found.runs
    assert found.is_whole


def test_an_empty_directory_has_no_segments(tmp_path: Path) -> None:
    """
    It counts as whole: no segment is missing.
    """
    make(tmp_path, [])

    found = list_segments(tmp_path)

    assert SegmentList(0, (), {}, ()) == found
    assert ([], True) == (found.runs, found.is_whole)


def test_a_missing_segment_divides_the_segments_into_runs(tmp_path: Path) -> None:
    """
    Each run can be opened as a log, all together cannot.
    """
    make(tmp_path, [0, SIZE, 3 * SIZE, 6 * SIZE, 7 * SIZE])

    found = list_segments(tmp_path)

    assert [(0, SIZE), (3 * SIZE,), (6 * SIZE, 7 * SIZE)] == found.runs
    assert not found.is_whole


@pytest.mark.parametrize(
    "name",
    [
        "0",
        f"{SIZE:019d}",
        f"{SIZE:021d}",
        f"{SIZE:020d}.bak",
        f"-{SIZE:019d}",
        "٣" * 20,
    ],
)
def test_a_file_with_another_name_is_an_orphan(tmp_path: Path, name: str) -> None:
    """
    Even if the name contains a number.
    """
    folder = make(tmp_path, [0])
    (folder / name).write_bytes(bytes(SIZE))

    found = list_segments(tmp_path)

    assert ((name, "not the name of a segment: move this file away"),) == found.orphans
    assert (0,) == found.bases
    assert not found.is_whole


def test_a_name_that_is_not_utf_8_is_an_orphan(tmp_path: Path) -> None:
    """
    The name keeps its bytes.
    """
    folder = make(tmp_path, [0])
    (folder / os.fsdecode(b"\xff")).write_bytes(b"")

    assert [os.fsdecode(b"\xff")] == names(list_segments(tmp_path))


def test_a_directory_with_the_name_of_a_segment_is_an_orphan(tmp_path: Path) -> None:
    """
    The segment counts as missing.
    """
    folder = make(tmp_path, [0, 2 * SIZE])
    (folder / f"{SIZE:020d}").mkdir()

    found = list_segments(tmp_path)

    assert ((f"{SIZE:020d}", "not a file: move it away"),) == found.orphans
    assert [(0,), (2 * SIZE,)] == found.runs


def test_a_base_that_is_no_multiple_of_the_size_is_an_orphan(tmp_path: Path) -> None:
    """
    Base offsets are multiples of the size of most files.
    """
    make(tmp_path, [0, 1000, SIZE])

    found = list_segments(tmp_path)

    assert [f"{1000:020d}"] == names(found)
    assert "bytes begins at this offset" in found.orphans[0][1]
    assert [(0, SIZE)] == found.runs


@pytest.mark.parametrize("size", [0, 1, SIZE - 1, SIZE + 1, 2 * SIZE])
def test_a_segment_of_another_size_is_odd_and_in_no_run(
    tmp_path: Path, size: int
) -> None:
    """
    It is still listed as a segment.
    """
    make(tmp_path, [0, SIZE, 2 * SIZE])
    make(tmp_path, [SIZE], size)

    found = list_segments(tmp_path)

    assert {SIZE: size} == found.odd
    assert (0, SIZE, 2 * SIZE) == found.bases
    assert [(0,), (2 * SIZE,)] == found.runs
    assert () == found.orphans
    assert not found.is_whole


def test_of_two_equally_frequent_sizes_the_larger_one_counts(tmp_path: Path) -> None:
    """
    A truncated file is the smaller one.
    """
    make(tmp_path, [0])
    make(tmp_path, [SIZE], 512)

    found = list_segments(tmp_path)

    assert SIZE == found.segment_size
    assert {SIZE: 512} == found.odd


def test_empty_files_do_not_count_for_the_size(tmp_path: Path) -> None:
    """
    A full disk may leave many of them.
    """
    make(tmp_path, [0])
    make(tmp_path, [SIZE, 2 * SIZE], 0)

    found = list_segments(tmp_path)

    assert SIZE == found.segment_size
    assert {SIZE: 0, 2 * SIZE: 0} == found.odd
    assert [(0,)] == found.runs


def test_a_directory_of_empty_files_has_no_segment_size(tmp_path: Path) -> None:
    """
    The store was just created, or lost everything.
    """
    make(tmp_path, [0], 0)

    found = list_segments(tmp_path)

    assert 0 == found.segment_size
    assert () == found.orphans


def test_a_file_that_vanishes_is_ignored(tmp_path: Path) -> None:
    """
    Retention may delete it while the directory is read; a broken link shows this.
    """
    folder = make(tmp_path, [SIZE, 2 * SIZE])
    (folder / f"{0:020d}").symlink_to(tmp_path / "gone")

    found = list_segments(tmp_path)

    assert (SIZE, 2 * SIZE) == found.bases
    assert found.is_whole


def test_a_link_to_a_segment_counts_as_the_segment(tmp_path: Path) -> None:
    """
    Old segments may be on another disk.
    """
    folder = make(tmp_path, [SIZE])
    (tmp_path / "away").write_bytes(bytes(SIZE))
    (folder / f"{0:020d}").symlink_to(tmp_path / "away")

    assert [(0, SIZE)] == list_segments(tmp_path).runs


def test_a_store_without_the_directory_is_refused(tmp_path: Path) -> None:
    """
    The error names it.
    """
    with pytest.raises(PystoreError, match="commitlog") as caught:
        list_segments(tmp_path)

    assert not isinstance(caught.value, NotAStoreError)
    assert str(tmp_path / "commitlog") == caught.value.path
