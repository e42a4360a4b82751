"""
The pool of open files: what it keeps, and which names it syncs.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pystore.errors import ClosedError
from pystore.fs.fd_cache import FdCache


def _some_files(folder: Path, count: int) -> list[str]:
    paths = [folder / str(number) for number in range(count)]
    for path in paths:
        path.write_bytes(path.name.encode())
    return [str(path) for path in paths]


def test_a_full_pool_drops_the_oldest_and_users_keep_their_files(
    tmp_path: Path,
) -> None:
    """
    A descriptor that a user holds is readable after the pool forgot it.
    """
    pool = FdCache(limit=2)
    paths = _some_files(tmp_path, 4)
    held = pool.get(paths[0], os.O_RDONLY)

    numbers = [pool.get(path, os.O_RDONLY).number for path in paths[1:]]

    assert b"0" == os.pread(held.number, 9, 0)
    assert held is not pool.get(paths[0], os.O_RDONLY)
    assert pool.get(paths[3], os.O_RDONLY).number == numbers[-1]


def test_a_forgotten_file_is_opened_again(tmp_path: Path) -> None:
    """
    Its name may mean another file since.
    """
    pool = FdCache()
    (path,) = _some_files(tmp_path, 1)
    before = pool.get(path, os.O_RDONLY)

    pool.forget(path)

    assert before is not pool.get(path, os.O_RDONLY)


def test_only_folders_that_changed_are_synced_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    One by one, or all that are left; those that are gone need none.
    """
    synced: list[str] = []
    monkeypatch.setattr(
        "pystore.fs.fd_cache.sync_directory", lambda path: synced.append(path.name)
    )
    for name in "abc":
        (tmp_path / name).mkdir()
    pool = FdCache()
    pool.note(tmp_path / "a", tmp_path / "b", tmp_path / "c", tmp_path / "gone")

    pool.sync_folder(tmp_path / "b")
    pool.sync_folder(tmp_path / "b")
    pool.sync_names()
    pool.sync_names()

    assert ["b", "a", "c"] == synced


def test_a_closed_pool_opens_nothing(tmp_path: Path) -> None:
    """
    Calls after the close raise.
    """
    pool = FdCache()
    (path,) = _some_files(tmp_path, 1)
    pool.close()

    with pytest.raises(ClosedError, match="were closed"):
        pool.get(path, os.O_RDONLY)
