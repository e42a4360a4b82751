"""
Bytes of a replica are written into a closed store, and what was there is kept.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from lib.command_line import overwrite, segment_file
from lib.store.pairs import SEGMENT, Pair

from pystore.core.lock import Lock
from pystore.doctor.patch import patch
from pystore.doctor.source import Source
from pystore.errors import PoisonedError


def take(pair: Pair, start: int, end: int) -> Path:
    """
    Writes a range of the copy to the store; returns the directory of the old bytes.
    """
    kept = pair.store.parent / "kept"
    kept.mkdir()
    with Lock(pair.store / "lock") as lock, Source(pair.copy) as source:
        patch(pair.store, lock, source, (start, end), kept)
    return kept


def check_same(pair: Pair) -> None:
    """
    Checks that both stores have the same segments.
    """
    for path in sorted((pair.copy / "commitlog").iterdir()):
        assert path.read_bytes() == (pair.store / "commitlog" / path.name).read_bytes()


def test_a_range_is_written_in_place_and_its_old_bytes_are_kept(pair: Pair) -> None:
    """
    Readers have the segment mapped.
    """
    path = segment_file(pair.store, SEGMENT)
    inode = path.stat().st_ino
    overwrite(path, 800, b"????")
    kept = take(pair, SEGMENT + 700, SEGMENT + 900)

    check_same(pair)
    assert inode == path.stat().st_ino
    old = (kept / "commitlog" / f"{SEGMENT + 700:020d}").read_bytes()
    assert 200 == len(old)
    assert b"????" == old[100:104]


def test_a_range_over_two_segments_is_written_to_both(pair: Pair) -> None:
    """
    A range is cut at segments.
    """
    overwrite(segment_file(pair.store, SEGMENT), SEGMENT - 4, b"????")
    overwrite(segment_file(pair.store, 2 * SEGMENT), 0, b"????")
    take(pair, 2 * SEGMENT - 100, 2 * SEGMENT + 100)

    check_same(pair)


@pytest.mark.parametrize("left", [None, 0, 5000])
def test_a_missing_or_short_segment_becomes_a_new_file(
    pair: Pair, left: int | None
) -> None:
    """
    The short one is kept.
    """
    path = segment_file(pair.store, SEGMENT)
    if left is None:
        path.unlink()
    else:
        os.truncate(path, left)
    kept = take(pair, SEGMENT + (left or 0), 2 * SEGMENT)

    check_same(pair)
    assert (left is not None) == (kept / "commitlog" / path.name).exists()


def test_a_second_name_of_a_segment_keeps_its_bytes(pair: Pair, tmp_path: Path) -> None:
    """
    A backup by hard links is not changed.
    """
    path = segment_file(pair.store, SEGMENT)
    overwrite(path, 800, b"????")
    os.link(path, tmp_path / "linked")
    before = (tmp_path / "linked").read_bytes()
    take(pair, SEGMENT + 700, SEGMENT + 900)

    check_same(pair)
    assert before == (tmp_path / "linked").read_bytes()


def test_nothing_is_written_after_the_lock_is_lost(pair: Pair) -> None:
    """
    Another writer may have the store.
    """
    path = segment_file(pair.store, SEGMENT)
    overwrite(path, 800, b"????")
    before = path.read_bytes()
    kept = pair.store.parent / "kept"
    kept.mkdir()
    with Lock(pair.store / "lock") as lock, Source(pair.copy) as source:
        (pair.store / "lock").unlink()
        with pytest.raises(PoisonedError):
            patch(pair.store, lock, source, (SEGMENT + 700, SEGMENT + 900), kept)

    assert before == path.read_bytes()
