"""
What an opening tells of the process before it (B2, A15).
"""

from __future__ import annotations

import shutil
from pathlib import Path

from lib.store.stores import SEGMENT, fill, kill_while

from pystore.recovery.restart import NO_RESTART, Restart
from pystore.store.commit_log import CommitLog


def _restart(root: Path) -> tuple[Restart, int]:
    """
    Returns what the opening found, and the end of the log.
    """
    with CommitLog(root, segment_size=SEGMENT) as log:
        found = log.recovery
        told = Restart(found.published_end, found.keeps_pages, found.is_copy)
        assert told == log.writer.restart
        return told, log.end_offset


def test_a_new_store_has_no_process_before(tmp_path: Path) -> None:
    """
    Nothing is told.
    """
    assert (NO_RESTART, 0) == _restart(tmp_path / "s")


def test_a_killed_process_in_this_boot_left_all_that_it_published(
    tmp_path: Path,
) -> None:
    """
    As one that closed its store.
    """
    root = tmp_path / "s"
    kill_while(root, lambda log: fill(log, 50), segment_size=SEGMENT)
    for _ in range(2):
        told, end = _restart(root)
        assert end > 0
        assert Restart(end, keeps_pages=True) == told


def test_a_copy_tells_of_another_store(tmp_path: Path) -> None:
    """
    Its pages were never those of the process before.
    """
    root = tmp_path / "s"
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 50)
        end = log.end_offset
    shutil.copytree(root, tmp_path / "copy")

    assert (Restart(end, is_copy=True), end) == _restart(tmp_path / "copy")
