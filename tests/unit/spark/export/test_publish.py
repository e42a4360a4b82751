"""
One rename publishes a run.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pystore.errors import FormatError, InvalidError, LockedError, StorageError
from pystore.spark.export.commit import Commit, ExportShape
from pystore.spark.export.publish import (
    last_commit,
    lock_export,
    move_file,
    publish,
    staging,
)


def commit(run: int) -> Commit:
    """
    A commit of a run without records.
    """
    return Commit(run, ExportShape(("offset",), (), "zstd"), (), {}, (), (), ())


def publish_one(into: Path, run: int) -> Path:
    """
    Publishes a run of one file.
    """
    with staging(into) as (attempts, tree):
        (attempts / "a").write_bytes(b"data")
        move_file(attempts / "a", 4, tree / "topic=T" / "day=D" / "a.parquet")
        return publish(into, tree, commit(run))


def test_the_newest_run_counts(tmp_path: Path) -> None:
    """
    It has the highest number, not the last name.
    """
    into = tmp_path / "deep" / "out"
    with lock_export(into):
        assert last_commit(into) is None
        for run in range(1, 11):
            place = publish_one(into, run)

        assert commit(10) == last_commit(into)
    assert into / "run=10" == place
    assert b"data" == (place / "topic=T" / "day=D" / "a.parquet").read_bytes()
    assert [] == os.listdir(into / "_export" / "staging")


def test_only_one_export_runs_at_a_time(tmp_path: Path) -> None:
    """
    The second one fails with a one-line error.
    """
    into = tmp_path / "out"
    with (
        lock_export(into),
        pytest.raises(LockedError, match=f"{into}: another export writes here"),
        lock_export(into),
    ):
        pass
    with lock_export(into):
        pass


def test_a_run_that_another_export_made_is_never_replaced(tmp_path: Path) -> None:
    """
    If locks do not reach other hosts, the rename decides.
    """
    into = tmp_path / "out"
    with lock_export(into):
        publish_one(into, 1)
        with pytest.raises(LockedError, match="run again"):
            publish_one(into, 1)


def test_the_next_run_removes_the_files_of_a_killed_run(tmp_path: Path) -> None:
    """
    No reader has seen them.
    """
    into = tmp_path / "out"
    left = into / "_export" / "staging" / "dead" / "attempts"
    left.mkdir(parents=True)
    (left / "x").touch()

    with lock_export(into):
        assert [] == os.listdir(into / "_export" / "staging")


def test_a_directory_that_is_no_export_is_refused(tmp_path: Path) -> None:
    """
    A directory in a store is refused, too.
    """
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    (tmp_path / "store" / "commitlog").mkdir(parents=True)

    with (
        pytest.raises(InvalidError, match="not an export"),
        lock_export(tmp_path / "photos"),
    ):
        pass
    with (
        pytest.raises(InvalidError, match="is in the store"),
        lock_export(tmp_path / "store" / "commitlog" / "out"),
    ):
        pass
    assert ["cat.jpg"] == os.listdir(tmp_path / "photos")


def test_a_run_without_its_commit_file_ends_the_export(tmp_path: Path) -> None:
    """
    The exported end must not be guessed.
    """
    (tmp_path / "run=3").mkdir()

    with pytest.raises(StorageError, match="No such file"):
        last_commit(tmp_path)
    (tmp_path / "run=3" / "_commit.json").write_text("{}")
    with pytest.raises(FormatError, match=r"run=3/_commit\.json: cannot be read"):
        last_commit(tmp_path)


def test_a_file_with_another_size_than_a_worker_wrote_is_an_error(
    tmp_path: Path,
) -> None:
    """
    Probably the hosts do not share the directory.
    """
    (tmp_path / "a").write_bytes(b"data")

    with pytest.raises(StorageError, match="4 bytes here, but a worker wrote 5"):
        move_file(tmp_path / "a", 5, tmp_path / "b")
    with pytest.raises(StorageError, match="same path on every host"):
        move_file(tmp_path / "gone", 5, tmp_path / "b")
