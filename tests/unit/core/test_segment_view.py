"""
Some segments of a store opened as a log, without a change of the store.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from lib.spark.verify_job import SEGMENT, make_replicas

from pystore.core.segment_view import open_view
from pystore.errors import CorruptError, NotAStoreError, PystoreError
from pystore.fs.layout import segment_name


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    A store of several segments.
    """
    return make_replicas(tmp_path_factory.mktemp("view"), 1)[0]


@pytest.fixture
def root(store: Path, tmp_path: Path) -> Path:
    """
    A copy of it.
    """
    return shutil.copytree(store, tmp_path / "a", symlinks=True)


def content(root: Path) -> dict[str, tuple[int, int]]:
    """
    Every file below a folder, with its size and the time of its last change.
    """
    paths = [path for path in root.rglob("*") if path.is_file()]
    return {str(p): (p.stat().st_size, p.stat().st_mtime_ns) for p in paths}


def test_a_segment_has_the_name_that_rocketmq_gives_it() -> None:
    """
    The name is its base offset in twenty digits.
    """
    assert "00000000001073741824" == segment_name(1 << 30)


def test_one_segment_is_opened_as_a_log_of_its_own(root: Path) -> None:
    """
    It keeps its offsets and its bytes.
    """
    with open_view(root, [2 * SEGMENT]) as log:
        raw = bytes(log.acquire(2 * SEGMENT, SEGMENT))

        assert [2 * SEGMENT] == log.segments()
    assert (root / "commitlog" / segment_name(2 * SEGMENT)).read_bytes() == raw


def test_segments_behind_a_missing_one_are_opened(root: Path) -> None:
    """
    The whole store cannot be opened.
    """
    (root / "commitlog" / segment_name(SEGMENT)).unlink()

    with open_view(root, [2 * SEGMENT, 3 * SEGMENT]) as log:
        assert [2 * SEGMENT, 3 * SEGMENT] == log.segments()
        assert log.read(3 * SEGMENT).topic_size == 2


def test_a_view_without_segments_is_an_empty_log(root: Path) -> None:
    """
    A store may have no segments.
    """
    with open_view(root, ()) as log:
        assert [] == log.segments()


def test_the_store_is_not_changed(root: Path) -> None:
    """
    No file is added or changed.
    """
    before = content(root)

    with open_view(root, [0, SEGMENT]) as log:
        log.scan(0).finish()
        assert before == content(root)

    assert before == content(root)


def test_a_relative_root_works(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The links hold absolute paths.
    """
    monkeypatch.chdir(root.parent)

    with open_view(root.name, [0]) as log:
        assert [0] == log.segments()


def test_the_links_are_removed(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Even if the work with them failed.
    """
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("pystore.core.segment_view._MEMORY", str(folder))

    def work() -> None:
        with open_view(root, [0]):
            assert 1 == len(os.listdir(folder))
            raise KeyError

    with pytest.raises(KeyError):
        work()

    assert [] == os.listdir(folder)


def test_a_view_of_a_deleted_segment_is_an_error(root: Path) -> None:
    """
    Retention may delete it between plan and task.
    """
    (root / "commitlog" / segment_name(0)).unlink()

    with pytest.raises(PystoreError), open_view(root, [0]) as log:
        log.acquire(0)


def test_an_error_names_the_file_of_the_store(root: Path) -> None:
    """
    The folder of the links is gone when it is read; the error keeps its type.
    """
    path = root / "commitlog" / segment_name(SEGMENT)
    path.unlink()
    path.mkdir()

    with pytest.raises(NotAStoreError) as opening, open_view(root, [SEGMENT]):
        pass
    with pytest.raises(CorruptError) as within, open_view(root, [0]) as log:
        raise CorruptError(f"{log.path}: bad", path=log.path)

    assert str(opening.value).startswith(f"{path}: not a regular file")
    assert str(root) == opening.value.path
    assert (f"{root}: bad", str(root)) == (str(within.value), within.value.path)
