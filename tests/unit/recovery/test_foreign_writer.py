"""
Foreign writers: each change by another program is found (A7, A15).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from lib.store.stores import SEGMENT, bodies, fill, kill_while

from pystore.errors import CorruptError, FormatError
from pystore.fs.layout import COMMIT_LOG
from pystore.rocketmq.checkpoint_file import CheckpointTimes
from pystore.store.commit_log import CommitLog
from pystore.store.maintenance import open_store
from pystore.verify.store import verify_store


def _append_checkpoint(root: Path) -> None:
    (root / "checkpoint").write_bytes(CheckpointTimes(1, 1).encode())


def _java_abort(root: Path) -> None:
    (root / "abort").write_text("4711")


def _java_epochs(root: Path) -> None:
    (root / "epochFileCheckpoint").write_text("1\n1725254278\n1-0\n")


def _java_identity(root: Path) -> None:
    (root / "brokerIdentity").write_text("cluster#broker#3")


TRACES: list[tuple[Callable[[Path], None], str]] = [
    (_append_checkpoint, "checkpoint was written"),
    (_java_abort, "abort was written"),
    (_java_epochs, "epochFileCheckpoint was written"),
    (_java_identity, "brokerIdentity was written"),
]


@pytest.mark.parametrize(("trace", "reason"), TRACES, ids=lambda it: str(it)[:20])
def test_each_file_that_another_program_writes_voids_our_bounds(
    tmp_path: Path, trace: Callable[[Path], None], reason: str
) -> None:
    """
    The opening after it is not clean, reports the reason, and keeps every record.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 50)
    trace(root)

    with CommitLog(root) as log:
        assert reason in " ".join(log.recovery.foreign)
        assert not log.recovery.is_clean
        assert 50 == len(bodies(log))
    with CommitLog(root) as log:
        assert () == log.recovery.foreign


def test_an_abort_file_that_vanished_after_a_crash_is_foreign(tmp_path: Path) -> None:
    """
    A Java broker that opened and closed the store removed the abort file.
    """
    root = tmp_path / "store"
    kill_while(root, lambda log: fill(log, 50))
    (root / "abort").unlink()

    with CommitLog(root) as log:
        assert ("abort was removed",) == log.recovery.foreign
        assert 50 == len(bodies(log))


def test_a_copy_of_a_store_voids_the_bounds(tmp_path: Path) -> None:
    """
    A restore has another inode: its bounds are void (A15).
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 50)
    shutil.copytree(root, tmp_path / "copy")

    with CommitLog(tmp_path / "copy") as log:
        assert "copy" in log.recovery.foreign[0]
        assert 50 == len(bodies(log))


def test_a_copy_whose_log_is_older_than_its_metadata_is_damaged_for_every_reader(
    tmp_path: Path,
) -> None:
    """
    A running store copied file by file, the log first, on one boot and mount: its live
    page is valid, and readers find an error where the log ends, not a shorter log.
    """
    root, copy = tmp_path / "store", tmp_path / "copy"
    with open_store(root) as store:
        fill(store.log, 50)
        end = store.log.end_offset
        copy.mkdir()
        shutil.copytree(root / COMMIT_LOG, copy / COMMIT_LOG)
        fill(store.log, 50)
        store.log.sync()
        store.keep()
        for path in root.iterdir():
            if path.is_dir() and path.name != COMMIT_LOG:
                shutil.copytree(path, copy / path.name)
            elif path.is_file():
                shutil.copy(path, copy / path.name)

    with (
        open_store(copy, mode="r") as reader,
        pytest.raises(CorruptError, match=f"nothing was written at offset {end}"),
    ):
        list(reader.log.scan())
    with pytest.raises(CorruptError, match="nothing was written here"):
        CommitLog(copy)
    assert "damaged" == verify_store(copy).verdict


def test_a_removed_last_segment_is_seen_after_a_clean_close(tmp_path: Path) -> None:
    """
    It held records that were acknowledged as synced, so the opening refuses (A16).
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 500)
        end = log.end_offset
    last = max((root / "commitlog").iterdir())
    last.unlink()

    with pytest.raises(CorruptError, match=f"end is {end}"):
        CommitLog(root)
    assert "damaged" == verify_store(root).verdict


def test_unreadable_imports_stop_the_opening(tmp_path: Path) -> None:
    """
    Garbage in an identity file is never read as "no identity" (RMQ-R16).
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 5)
    (root / "brokerIdentity").write_bytes(b"\xff garbage")

    with pytest.raises(FormatError, match="brokerIdentity"):
        CommitLog(root)
