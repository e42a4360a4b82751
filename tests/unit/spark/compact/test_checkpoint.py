"""
The directory of unfinished work.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from lib.spark.compaction import CHOICE, LocalJobs, make_store

from pystore.errors import StorageError
from pystore.spark.compact.checkpoint import (
    begin_work,
    find_work,
    remove_work,
)
from pystore.spark.compact.layout import QueueLayout, parse_layout
from pystore.spark.compact.plan import CompactionPlan, make_plan


@pytest.fixture
def plan(tmp_path: Path) -> CompactionPlan:
    """
    The plan of a small store.
    """
    return make_plan(make_store(tmp_path, records=300), CHOICE)


def test_work_is_found_by_store_and_choice(
    plan: CompactionPlan, tmp_path: Path
) -> None:
    """
    Work for another store or choice is not found.
    """
    work = begin_work(tmp_path, plan)

    assert work == find_work(tmp_path, plan.store, CHOICE)
    assert find_work(tmp_path, "/other", CHOICE) is None
    other = replace(CHOICE, keep_tombstones=True)
    assert find_work(tmp_path, plan.store, other) is None


def test_new_work_removes_the_old(plan: CompactionPlan, tmp_path: Path) -> None:
    """
    There is one plan at a time.
    """
    begin_work(tmp_path, plan)
    other = begin_work(tmp_path, replace(plan, choice=replace(CHOICE, topics=("x",))))

    assert [other.folder] == list((tmp_path / "compacting").iterdir())
    remove_work(tmp_path)
    assert not (tmp_path / "compacting").exists()
    remove_work(tmp_path)


def test_an_incomplete_plan_is_ignored(plan: CompactionPlan, tmp_path: Path) -> None:
    """
    The run was killed before it wrote the plan, or another program wrote the file.
    """
    work = begin_work(tmp_path, plan)
    (work.folder / "plan.json").write_text(plan.text()[:-9])
    (tmp_path / "compacting" / "else").mkdir()

    assert find_work(tmp_path, plan.store, CHOICE) is None


def test_a_plan_under_another_name_is_ignored(
    plan: CompactionPlan, tmp_path: Path
) -> None:
    """
    The plan was changed, or the directory was copied.
    """
    work = begin_work(tmp_path, plan)
    work.folder.rename(work.folder.with_name("other"))

    assert find_work(tmp_path, plan.store, CHOICE) is None


def test_layouts_are_read_as_they_were_saved(
    plan: CompactionPlan, tmp_path: Path
) -> None:
    """
    Before that there are none, which differs from an empty list.
    """
    work = begin_work(tmp_path, plan)
    assert work.layouts() is None
    texts = LocalJobs().lay_out(work)
    layouts = [one for one in map(parse_layout, texts) if isinstance(one, QueueLayout)]

    work.save_layouts(layouts)

    assert layouts == work.layouts()
    assert len(layouts) == 9


def test_an_error_names_the_directory_that_cannot_be_made(tmp_path: Path) -> None:
    """
    A file is in the way.
    """
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(StorageError, match=f"{tmp_path}/file/compacting: Not a dir"):
        begin_work(tmp_path / "file", CompactionPlan("/", 1, (), 0, "", -1, CHOICE))
