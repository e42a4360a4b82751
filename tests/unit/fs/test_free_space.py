"""
The free space of a disk.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from pystore.errors import FullError
from pystore.fs.free_space import require_free, usable_bytes, used_percent


@pytest.mark.parametrize(
    ("space", "percent"),
    [
        # All blocks, the free ones, and those that any process may use.
        ((1000, 1000, 1000), 0),
        ((1000, 500, 500), 50),
        ((1000, 499, 499), 51),
        ((1000, 100, 50), 95),
        ((1000, 50, 0), 100),
        ((0, 0, 0), 0),
    ],
)
def test_a_file_system_is_as_full_as_df_says(
    space: tuple[int, int, int],
    percent: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    Rounded up, so that only an empty one is at 0.
    """
    told = os.statvfs_result((4096, 4096, *space, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: told)

    assert percent == used_percent(tmp_path)


def test_the_size_of_a_disk_is_what_a_process_can_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    What is reserved for root is neither free nor a part of the size.
    """
    told = os.statvfs_result((4096, 512, 1000, 100, 50, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: told)

    assert (950 * 512, 50 * 512) == usable_bytes(tmp_path)


def test_a_directory_that_is_gone_is_an_error_of_the_system(tmp_path: Path) -> None:
    """
    The caller decides what that means.
    """
    assert 0 <= used_percent(tmp_path) <= 100
    with pytest.raises(FileNotFoundError):
        used_percent(tmp_path / "none")


def test_too_little_space_is_one_error_with_the_numbers(tmp_path: Path) -> None:
    """
    It names the folder, the job and what to do.
    """
    needed = shutil.disk_usage(tmp_path).total + 1

    require_free(tmp_path, 0, "the job", "wait")
    with pytest.raises(
        FullError, match=r"the job needs [\d.]+ .B, [\d.]+ .?B are free: wait"
    ) as caught:
        require_free(tmp_path, needed, "the job", "wait")

    assert str(tmp_path) == caught.value.path
