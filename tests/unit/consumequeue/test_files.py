"""
The files of a queue: their names, their lengths, and what a failure leaves.
"""

from __future__ import annotations

import errno
import gc
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pystore.consumequeue.files import QueueFiles
from pystore.errors import CorruptError, PoisonedError, StorageError
from pystore.fs.fd_cache import FdCache

SIZE = 100

NEEDS_MOUNTS = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("unshare"),
    reason="mounting a small file system needs root and unshare",
)


def _files(folder: Path, *, is_writable: bool = True, limit: int = 256) -> QueueFiles:
    files = QueueFiles(folder, SIZE, is_writable=is_writable, pool=FdCache(limit))
    files.load()
    return files


def test_files_have_their_full_length_and_the_name_of_their_position(
    tmp_path: Path,
) -> None:
    """
    As RocketMQ makes them: 20 digits, zero filled.
    """
    folder = tmp_path / "T" / "0"
    files = _files(folder)

    files.write(190, b"x" * 20)

    assert ["0" * 17 + "100", "0" * 17 + "200"] == sorted(os.listdir(folder))
    assert bytes(90) + b"x" * 10 == (folder / ("0" * 17 + "100")).read_bytes()
    assert b"x" * 10 + bytes(90) == (folder / ("0" * 17 + "200")).read_bytes()
    assert b"x" * 20 == files.read(190, 20)
    assert [100, 200] == _files(folder).bases


def test_a_queue_begins_in_no_store_that_was_renamed(tmp_path: Path) -> None:
    """
    Its path stays free: a directory there would look like a store, or stop a restore.
    """
    files = _files(tmp_path / "store" / "consumequeue" / "T" / "0")

    with pytest.raises(StorageError, match="cannot write"):
        files.write(0, b"x")
    assert [] == os.listdir(tmp_path)
    (tmp_path / "store").mkdir()
    files.write(0, b"x")
    assert ["consumequeue"] == os.listdir(tmp_path / "store")


@pytest.mark.parametrize(
    ("name", "size", "problem"),
    [
        ("notes.txt", SIZE, "its name is no position of a file of this queue"),
        ("100", SIZE, "its name is no position"),
        ("0" * 17 + "150", SIZE, "its name is no position"),
        ("0" * 17 + "100", 99, "it has 99 bytes, and not 100 as configured"),
    ],
)
def test_the_error_of_foreign_files_has_their_name_and_advice(
    name: str, size: int, problem: str, tmp_path: Path
) -> None:
    """
    The queue can be built again, so moving it away loses nothing.
    """
    _files(tmp_path).write(0, b"x")
    (tmp_path / name).write_bytes(bytes(size))

    with pytest.raises(CorruptError, match=problem) as raised:
        _files(tmp_path)

    assert str(tmp_path / name) == raised.value.path
    assert "`pystore doctor --apply` builds the queue again" in str(raised.value)


def test_a_missing_file_is_named_and_not_the_one_behind_it(tmp_path: Path) -> None:
    """
    That one is whole.
    """
    _files(tmp_path).write(0, b"x")
    (tmp_path / ("0" * 17 + "300")).write_bytes(bytes(SIZE))

    with pytest.raises(CorruptError, match="the file is missing") as raised:
        _files(tmp_path)
    assert str(tmp_path / ("0" * 17 + "100")) == raised.value.path


def test_an_empty_last_file_is_as_good_as_none(tmp_path: Path) -> None:
    """
    A crash between creation and truncation leaves it; a reader does not remove it.
    """
    _files(tmp_path).write(0, b"x")
    empty = tmp_path / ("0" * 17 + "100")
    empty.touch()

    assert [0] == _files(tmp_path, is_writable=False).bases
    assert empty.exists()
    assert [0] == _files(tmp_path).bases
    assert not empty.exists()


def test_a_shorter_file_is_an_error_and_no_signal(tmp_path: Path) -> None:
    """
    Another program truncated it after it was opened.
    """
    files = _files(tmp_path)
    files.write(0, b"x" * 80)
    os.truncate(tmp_path / ("0" * 20), 30)

    with pytest.raises(CorruptError, match=r"it ends at byte 30: .pystore doctor"):
        files.read(20, 20)


def test_a_removed_file_is_an_error_with_its_path(tmp_path: Path) -> None:
    """
    The system's reason comes with it.
    """
    files = _files(tmp_path, limit=1)
    files.write(0, b"x" * 150)
    files.read(100, 1)
    (tmp_path / ("0" * 20)).unlink()

    with pytest.raises(
        StorageError, match=r"cannot read .*/0{20}: No such file"
    ) as raised:
        files.read(0, 1)

    assert errno.ENOENT == raised.value.errno


def test_more_queues_than_descriptors_are_fine(tmp_path: Path) -> None:
    """
    The pool has the newest; an unsynced file keeps its descriptor.
    """
    pool = FdCache(4)
    gc.collect()
    before = len(os.listdir("/dev/fd"))
    several = [
        QueueFiles(tmp_path / str(n), SIZE, is_writable=True, pool=pool)
        for n in range(20)
    ]
    for n, files in enumerate(several):
        files.write(0, bytes([n]) * 10)
        assert files.is_dirty
    assert [bytes([n]) * 10 for n in range(20)] == [f.read(0, 10) for f in several]

    for files in several:
        files.sync()

    assert not any(files.is_dirty for files in several)
    assert len(os.listdir("/dev/fd")) <= before + 4
    pool.close()
    assert before == len(os.listdir("/dev/fd"))


def test_a_cut_removes_later_files_and_zeroes_only_nonzero_bytes(
    tmp_path: Path,
) -> None:
    """
    A file of zeros above the cut is not written.
    """
    files = _files(tmp_path)
    files.write(0, b"x" * 250)

    files.cut(150, keep_first=False)

    assert [0, 100] == files.bases
    assert b"x" * 50 + bytes(50) == files.read(100, 100)
    files.sync()
    files.cut(150, keep_first=False)
    assert not files.is_dirty
    files.cut(0, keep_first=False)
    assert [] == files.bases
    assert [] == os.listdir(tmp_path)


def test_a_failed_sync_poisons_and_syncs_nothing_after_it(tmp_path: Path) -> None:
    """
    The failed file stays unsynced, and so do all files after it.
    """
    asked = []

    def sync(number: int) -> None:
        asked.append(number)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    files = QueueFiles(tmp_path, SIZE, is_writable=True, pool=FdCache(), sync=sync)
    files.write(0, b"x" * 50)

    with pytest.raises(PoisonedError, match=r"cannot sync .*: Input/output error"):
        files.sync()
    for change in (
        files.sync,
        lambda: files.write(0, b"y"),
        lambda: files.cut(0, keep_first=False),
    ):
        with pytest.raises(PoisonedError, match="an earlier sync failed"):
            change()

    assert 1 == len(asked)
    assert files.is_dirty


def test_files_reach_the_disk_one_after_the_other(tmp_path: Path) -> None:
    """
    A power cut takes the newest at most: each is synced before the next appears,
    and a failure of that is a failed sync.
    """
    synced: list[list[str]] = []

    def sync(_: int) -> None:
        synced.append(sorted(os.listdir(tmp_path)))
        if len(synced) == 3:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    files = QueueFiles(tmp_path, SIZE, is_writable=True, pool=FdCache(), sync=sync)
    files.write(0, b"x" * 250)
    with pytest.raises(PoisonedError, match="cannot sync"):
        files.write(250, b"x" * 60)

    assert [["0" * 20], ["0" * 20, "0" * 17 + "100"]] == synced[:2]
    assert [0, 100, 200] == files.bases


@NEEDS_MOUNTS
def test_a_full_disk_leaves_zeros_and_works_again_with_space(tmp_path: Path) -> None:
    """
    Half an entry would count as an entry.
    """
    script = f"""
    import os, pathlib
    from pystore.errors import FullError
    from pystore.fs.fd_cache import FdCache
    from pystore.consumequeue.files import QueueFiles
    root = pathlib.Path({str(tmp_path)!r})
    ballast = root / "ballast"
    ballast.write_bytes(bytes(200 * 1024))
    files = QueueFiles(root / "q", 1 << 20, is_writable=True, pool=FdCache())
    files.write(0, b"x" * 20)
    try:
        files.write(20, b"y" * (100 * 1024))
    except FullError as error:
        print(error)
    print(len(files.read(0, 1 << 20).rstrip(bytes(1))))
    ballast.unlink()
    files.write(20, b"y" * (100 * 1024))
    print(len(files.read(0, 1 << 20).rstrip(bytes(1))))
    """
    mount = f"mount -t tmpfs -o size=256k none {tmp_path} && exec "
    command = f'{mount} {sys.executable} -c "$0"'

    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", command, textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=True,
    )

    full, kept, after = done.stdout.splitlines()
    assert re.fullmatch(
        rf"cannot write {tmp_path}/q/0+: No space left on device: make space, "
        "then try again",
        full,
    )
    assert ["20", str(20 + 100 * 1024)] == [kept, after]
