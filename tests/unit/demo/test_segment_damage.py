"""
A copy of a segment is whole if the disk has the bytes that were sealed.
"""

from __future__ import annotations

from pathlib import Path

from lib.command_line import segment_file
from lib.store.pairs import SEGMENT, fill, seal

from pystore.demo.segment_damage import is_whole, rot_one_bit, sealed_in_all


def a_store(root: Path, records: int = 300) -> None:
    """
    A store with sealed segments.
    """
    fill(root, records)
    seal(root)


def test_rot_and_a_missing_file_are_seen_and_the_right_bytes_again(
    tmp_path: Path,
) -> None:
    """
    The same bit rots back.
    """
    root = tmp_path / "one"
    a_store(root)
    assert is_whole(root, SEGMENT)
    rot_one_bit(root, SEGMENT, 500)
    assert not is_whole(root, SEGMENT)
    assert is_whole(root, 0)
    rot_one_bit(root, SEGMENT, 500)
    assert is_whole(root, SEGMENT)
    segment_file(root, SEGMENT).unlink()
    assert not is_whole(root, SEGMENT)


def test_what_is_not_sealed_or_no_store_is_not_whole(tmp_path: Path) -> None:
    """
    Nothing proves it.
    """
    root = tmp_path / "one"
    a_store(root)
    end = max(sealed_in_all([root])) + SEGMENT
    assert segment_file(root, end).exists()
    assert not is_whole(root, end)
    assert not is_whole(tmp_path / "none", 0)


def test_the_segments_that_all_have_sealed(tmp_path: Path) -> None:
    """
    None without a store, and none of one that is not there.
    """
    a_store(tmp_path / "one", 600)
    a_store(tmp_path / "two", 300)
    one, two = stores = [tmp_path / "one", tmp_path / "two"]
    longer, shorter = sealed_in_all([one]), sealed_in_all([two])
    assert len(longer) > len(shorter) > 1
    assert list(range(0, len(longer) * SEGMENT, SEGMENT)) == longer
    assert shorter == sealed_in_all(stores)
    assert [] == sealed_in_all([*stores, tmp_path / "none"])
    assert [] == sealed_in_all([])
