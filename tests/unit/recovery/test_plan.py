"""
The plan of an opening: its decisions and their order.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from lib.store.stores import SEGMENT, bodies, fill, kill_while

from pystore.core.live_page import LivePage
from pystore.errors import CorruptError
from pystore.recovery.dry_run import inspect
from pystore.store.commit_log import CommitLog


def _overwrite(root: Path, at: int, data: bytes) -> None:
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(at)
        file.write(data)


def test_a_new_store_plans_nothing(tmp_path: Path) -> None:
    """
    An empty log is whole.
    """
    root = tmp_path / "store"
    (root / "commitlog").mkdir(parents=True)
    made = inspect(root).plan

    assert made.is_new
    assert (0, 0, "") == (made.end_offset, made.cut_bytes, made.cut_reason)


def test_a_torn_tail_above_the_bound_is_cut_and_counted(tmp_path: Path) -> None:
    """
    The plan has the number of bytes, none of which was acknowledged: in the same boot
    the published end is exact (A19).
    """
    root = tmp_path / "store"
    kill_while(root, lambda log: fill(log, 10))
    end = inspect(root).plan.end_offset
    _overwrite(root, end, b"\0\0\0\x70 half a record")
    made = inspect(root).plan

    assert end == made.end_offset
    assert 18 == made.cut_bytes
    assert "A19" == made.rule


def test_a_bad_record_below_the_bound_is_damage(tmp_path: Path) -> None:
    """
    In the same boot the published end is the bound (A5).
    """
    root = tmp_path / "store"
    kill_while(root, lambda log: fill(log, 10))
    _overwrite(root, 100, b"\xff")
    made = inspect(root).plan

    assert made.corrupt is not None
    assert 0 == made.corrupt.offset
    assert "published end" in made.corrupt.reason


@pytest.mark.parametrize("word", ["boot_id", "mount_id"])
def test_the_live_page_of_another_boot_or_mount_is_ignored(
    tmp_path: Path, word: str
) -> None:
    """
    A published end holds in its own boot only: a power cut may take bytes below it
    (A4, A5).
    """
    root = tmp_path / "store"
    kill_while(root, lambda log: fill(log, 10))
    _overwrite(root, 0, bytes(SEGMENT))
    assert inspect(root).plan.corrupt is not None

    other: dict[str, Any] = {"boot_id": bytes(range(16)), "mount_id": 7}
    with LivePage(root / "meta" / "live", writable=True) as page:
        page.begin(page.read()._replace(**{word: other[word]}))
    made = inspect(root).plan

    assert made.corrupt is None
    assert ("synced end", 0) == (made.bound_name, made.end_offset)


def test_a_clean_mark_with_bytes_after_the_end_is_ignored(
    tmp_path: Path,
) -> None:
    """
    The eight bytes at the end must be zero (A9).
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 10)
        end = log.end_offset
    _overwrite(root, end, b"\x01")
    made = inspect(root).plan

    assert not made.is_clean
    assert (end, 1) == (made.end_offset, made.cut_bytes)


def test_a_clean_mark_whose_last_record_changed_is_ignored(
    tmp_path: Path,
) -> None:
    """
    The record that the mark names must be unchanged (A9).
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        last = fill(log, 10)[-1]
    _overwrite(root, last + 100, b"\xff")

    assert inspect(root).plan.corrupt is not None


@pytest.mark.parametrize("is_kept", [False, True], ids=["at once", "kept"])
def test_a_log_without_its_files_is_damaged_and_not_empty(
    tmp_path: Path, is_kept: bool
) -> None:
    """
    If its file system is not mounted, no new log may replace the old one.
    """
    root = tmp_path / "store"
    kill_while(root, lambda log: (fill(log, 30), is_kept and log.keep()))
    (root / "commitlog" / f"{0:020d}").unlink()

    with pytest.raises(CorruptError, match="accept-loss") as caught:
        CommitLog(root)
    assert 0 == caught.value.offset
    with CommitLog(root, accept_loss=True) as log:
        assert 0 == log.end_offset


def test_store_times_continue_after_an_empty_segment(
    tmp_path: Path,
) -> None:
    """
    After a clock was set back, no record gets a store time below that of the last
    record.
    """
    root = tmp_path / "store"

    def work(log: CommitLog) -> None:
        fill(log, 5)
        log.writer.log.roll()
        log.keep()

    kill_while(root, work)
    with CommitLog(root, mode="r") as log:
        last = log.read([int(at) for rows in log.scan() for at in rows["offset"]][-1])
    survey = inspect(root).plan.survey
    assert (0, SEGMENT) == (survey.records, survey.end_offset)
    assert (last.offset, last.store_ms) == (survey.last_offset, survey.store_ms)


def test_a_copy_finishes_the_unfinished_cut_of_its_original(tmp_path: Path) -> None:
    """
    A copy or a restore does not bring back cut bytes (A3, A15).
    """
    root, copy = tmp_path / "store", tmp_path / "copy"

    def work(log: CommitLog) -> None:
        offsets = fill(log, 30)
        log.sync()
        with log.writer.metastore.change() as change:
            change.intend_cut(offsets[10])

    kill_while(root, work)
    shutil.copytree(root, copy)
    with CommitLog(copy) as log:
        assert "A3" == log.recovery.rule
        assert log.recovery.foreign
        assert 10 == len(bodies(log))
    with CommitLog(copy) as log:
        assert log.recovery.is_clean
        assert 10 == len(bodies(log))
