"""
Compactions of a store with a segment that is missing, short or unreadable.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from lib.spark.compaction import CHOICE, LocalJobs, digest
from lib.spark.exports import Growing
from lib.spark.ill_stores import CASES, make_ill

from pystore.errors import CorruptError
from pystore.spark.compact.run import Compaction, compact, survey
from pystore.store.commit_log import CommitLog


@pytest.fixture
def store(tmp_path: Path) -> Growing:
    """
    A store of 300 records in several segments.
    """
    return Growing.new(tmp_path / "store", 300)


@pytest.mark.parametrize(("way", "place", "has_page"), CASES)
def test_an_ill_store_is_not_compacted(
    store: Growing, tmp_path: Path, way: str, place: str, has_page: bool
) -> None:
    """
    A missing record may be the latest of its key. The error names the range.
    """
    ill = make_ill(store, way, place, has_page=has_page)

    runs: list[Callable[[], Compaction]] = [
        partial(survey, LocalJobs(), ill.root, CHOICE),
        partial(compact, LocalJobs(), ill.root, tmp_path / "out", CHOICE),
    ]
    for run in runs:
        with pytest.raises(CorruptError, match="nothing was compacted") as caught:
            run()
        assert str(ill.path) in str(caught.value)
        assert f"offsets {caught.value.offset} to " in str(caught.value)
        assert caught.value.offset is not None
        assert ill.base <= caught.value.offset <= ill.gone[-1]
    assert not (tmp_path / "out" / "compaction").exists()


def test_a_range_above_the_confirm_offset_concerns_no_compaction(
    store: Growing, tmp_path: Path
) -> None:
    """
    Nothing there is read.
    """
    end = store.offsets[200]
    newest = max((store.root / "commitlog").iterdir())
    with CommitLog(store.root) as log:
        log.writer.log.confirm(end)
        whole = survey(LocalJobs(), store.root, CHOICE)
        newest.rename(tmp_path / "kept")

        found = compact(LocalJobs(), store.root, tmp_path / "out", CHOICE)

        (tmp_path / "kept").rename(newest)
    assert end == found.plan.end
    assert whole.queues == found.queues


@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_a_killed_compaction_of_a_store_that_is_ill_now_continues_when_it_is_restored(
    store: Growing, tmp_path: Path, place: str
) -> None:
    """
    What was done is kept until then.
    """
    into = tmp_path / "out"
    compact(LocalJobs(), store.root, tmp_path / "expected", CHOICE)

    class _Killed(LocalJobs):
        def copy(self, *_: object) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compact(_Killed(), store.root, into, CHOICE)
    shutil.copytree(store.root / "commitlog", tmp_path / "kept")
    ill = make_ill(store, "missing", place, has_page=True)
    with pytest.raises(CorruptError, match="nothing was compacted"):
        compact(LocalJobs(), store.root, into, CHOICE)
    shutil.copy2(tmp_path / "kept" / ill.path.name, ill.path)

    done = compact(LocalJobs(), store.root, into, CHOICE)

    assert done.is_resumed
    assert digest(tmp_path / "expected") == digest(into)
