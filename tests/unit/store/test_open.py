"""
Opening for writing, step by step.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from lib.store.stores import SEGMENT, bodies, fill, kill_while

from pystore.errors import FormatError, FullError, LockedError, NotAStoreError
from pystore.fs.atomic import replace_file
from pystore.metastore.schema import INCARNATION
from pystore.store import open as opening
from pystore.store import writer
from pystore.store.commit_log import CommitLog
from pystore.store.store import Store


def test_every_opening_is_a_new_incarnation(tmp_path: Path) -> None:
    """
    The counter rises and the bits are new (B1).
    """
    seen = []
    for _ in range(3):
        with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
            seen.append(log.writer.metastore.read(INCARNATION))

    assert [1, 2, 3] == [incarnation.counter for incarnation in seen]
    assert 3 == len({incarnation.bits for incarnation in seen})


def test_a_half_made_meta_is_removed(tmp_path: Path) -> None:
    """
    What a crash in the first start left does not disturb the second (A14).
    """
    root = tmp_path / "store"
    (root / "commitlog").mkdir(parents=True)
    (root / "meta.new" / "lmdb").mkdir(parents=True)
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 1)

    assert not (root / "meta.new").exists()


@pytest.mark.parametrize("content", [b"", b"garbage" * 1000], ids=["empty", "garbage"])
def test_a_damaged_database_is_damage_and_never_new(
    tmp_path: Path, content: bytes
) -> None:
    """
    An existing meta/ with a bad data.mdb stops the opening (A14).
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 1)
    (root / "meta" / "lmdb" / "data.mdb").write_bytes(content)

    with pytest.raises(FormatError, match=r"data\.mdb"):
        CommitLog(root)


def test_a_failed_opening_gives_the_lock_back(tmp_path: Path) -> None:
    """
    After an error and a repair the store can be opened again.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 1)
    (root / "commitlog" / "notes.txt").write_text("x")
    for _ in range(2):
        with pytest.raises(NotAStoreError, match=r"notes\.txt"):
            CommitLog(root)
    (root / "commitlog" / "notes.txt").unlink()

    with CommitLog(root) as log:
        assert 1 == len(bodies(log))


def test_another_process_with_the_store_is_named(tmp_path: Path) -> None:
    """
    The error names the process that has the store.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                CommitLog(root)
            except LockedError as error:
                os.write(write, str(error).encode())
            os._exit(0)
        os.waitpid(child, 0)
        text = os.read(read, 4096).decode()
        os.close(read)
        os.close(write)

    assert f"pid {os.getpid()}" in text


def test_a_segment_of_a_wrong_size_is_named(tmp_path: Path) -> None:
    """
    Path, size and the size it should have.
    """
    root = tmp_path / "store"
    kill_while(root, lambda log: fill(log, 1000))
    last = max((root / "commitlog").iterdir())
    os.truncate(last, 1000)

    with pytest.raises(NotAStoreError, match=f"{last.name}: 1000 bytes"):
        CommitLog(root)


def test_a_gap_between_segments_is_named(tmp_path: Path) -> None:
    """
    The missing segment is the message.
    """
    root = tmp_path / "store"
    kill_while(root, lambda log: fill(log, 1000))
    (root / "commitlog" / f"{SEGMENT:020d}").unlink()

    with pytest.raises(NotAStoreError, match=f"{SEGMENT:020d} is missing"):
        CommitLog(root)


def test_a_crash_can_leave_an_empty_last_file(tmp_path: Path) -> None:
    """
    As RocketMQ: a zero-length last file is no segment.
    """
    root = tmp_path / "store"
    kill_while(root, lambda log: fill(log, 10))
    (root / "commitlog" / f"{SEGMENT:020d}").touch()
    with CommitLog(root) as log:
        fill(log, 1000, first=10)

        assert 1010 == len(bodies(log))


def test_an_abort_that_a_full_disk_delays_is_not_foreign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Killed before there was space again, the store is still ours; with space the
    file is written (A7, A13).
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 3)

    def replace_if_there_is_space(path: Path, *rest: Any) -> None:
        if path.name == "abort":
            raise FullError("no space")
        replace_file(path, *rest)

    for module in (opening, writer):
        monkeypatch.setattr(module, "replace_file", replace_if_there_is_space)
    kill_while(root, lambda log: (fill(log, 3), log.keep()))
    assert not (root / "abort").exists()
    with CommitLog(root) as log:
        assert () == log.recovery.foreign
        assert 6 == len(bodies(log))
        monkeypatch.undo()
        fill(log, 1)
        log.keep()
        assert b" pystore " in (root / "abort").read_bytes()


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_the_modes_of_all_files_are_those_of_the_umask(
    tmp_path: Path, umask: int, mode: int
) -> None:
    """
    Spark's user and an operator read what the user of the broker lets them read.
    """
    root = tmp_path / "store"
    before = os.umask(umask)
    try:
        with Store(root, segment_size=SEGMENT) as store:
            fill(store.log, 500)
            store.log.begin_epoch(1)
            store.keep()
        with Store(root):
            pass
    finally:
        os.umask(before)

    files = [path for path in root.rglob("*") if path.is_file()]
    assert {mode} == {path.stat().st_mode & 0o777 for path in files}
