"""
Segments that go while they are copied, written or installed: by retention, or because
the log begins anew.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from lib.command_line import overwrite, segment_file
from lib.meddled_copy import MeddledCopy
from lib.store.late import follow_from
from lib.store.pairs import SEGMENT, fill, seal

from pystore import Store
from pystore.segments import mending
from pystore.segments.mend_plan import MendStep, plan_mending
from pystore.segments.mending import (
    MendProgress,
    fill_store,
    mend_closed,
    mend_open,
)
from pystore.segments.store_copy import StoreCopy
from pystore.verify import verify_store


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """
    Two stores with the same log.
    """
    good, bad = tmp_path / "good", tmp_path / "bad"
    fill(good, 900)
    seal(good)
    follow_from(good, bad, 0)
    return good, bad


@pytest.mark.parametrize("kept_from", [2, 3])
@pytest.mark.parametrize("kind", ["bit", "missing"])
def test_what_retention_deletes_under_a_repair_does_not_come_back(
    pair: tuple[Path, Path], kind: str, kept_from: int
) -> None:
    """
    Neither where it was the segment before the first one that is left; the others are
    repaired.
    """
    good, bad = pair
    with Store(bad) as store:
        for base in (SEGMENT, 5 * SEGMENT):
            if kind == "bit":
                overwrite(segment_file(bad, base), 700, b"????")
            else:
                segment_file(bad, base).unlink()
        source, progress = MeddledCopy(good), MendProgress()
        progress.begin(plan_mending(StoreCopy(bad), [source]))
        source.meddle = lambda: store.log.delete_before(kept_from * SEGMENT)
        steps, kept = progress.plan.steps, bad.parent / "kept"
        mend_open(store, fill_store(store, nullcontext()), steps, kept, progress)

        assert kept_from * SEGMENT == store.log.min_offset
    assert [5 * SEGMENT] == [one.base for one in progress.done]
    assert [] == progress.unmended
    assert not segment_file(bad, SEGMENT).exists()
    report = verify_store(bad)
    assert ("whole", 0) == (report.verdict, report.queues.missing)


@pytest.mark.parametrize("moment", ["unshared", "check_step"])
def test_what_retention_deletes_before_or_after_a_step_is_passed_over(
    pair: tuple[Path, Path], moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A plan of many segments takes hours; no disk is blamed for it.
    """
    good, bad = pair
    for base in (SEGMENT, 5 * SEGMENT):
        overwrite(segment_file(bad, base), 700, b"????")
    progress = MendProgress()
    progress.begin(plan_mending(StoreCopy(bad), [StoreCopy(good)]))
    real = getattr(mending, moment)
    with Store(bad) as store:

        def late(root: Path, step: MendStep) -> object:
            store.log.delete_before(2 * SEGMENT)
            return real(root, step)

        monkeypatch.setattr(mending, moment, late)
        steps, kept = progress.plan.steps, bad.parent / "kept"
        mend_open(store, fill_store(store, nullcontext()), steps, kept, progress)
    assert [5 * SEGMENT] == [one.base for one in progress.done]
    assert "whole" == verify_store(bad).verdict


def test_what_retention_deletes_at_a_source_comes_from_the_next_one(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    """
    Also if it deletes what the last one would give: the rest is repaired.
    """
    good, bad = pair
    third = tmp_path / "third"
    follow_from(good, third, 0)
    for base in (SEGMENT, 4 * SEGMENT):
        segment_file(bad, base).unlink()
    overwrite(segment_file(bad, 3 * SEGMENT), 700, b"????")
    with Store(good) as source:
        first = MeddledCopy(good)
        first.meddle = lambda: source.log.delete_before(4 * SEGMENT)
        found = mend_closed(bad, [first, StoreCopy(third)], tmp_path / "kept")
    assert [1, 3, 4] == [one.base // SEGMENT for one in found.done]
    assert [] == found.unmended
    report = verify_store(bad)
    assert ("whole", 0) == (report.verdict, report.queues.missing)


def test_a_log_that_begins_anew_gets_nothing_of_its_former_history(
    pair: tuple[Path, Path],
) -> None:
    """
    A slave was emptied during the copy, and follows from a later segment on: neither
    the segment within the log nor the one before its first one is the former one's.
    """
    good, bad = pair
    with Store(bad) as store, Store(good, mode="r") as other:
        segment_file(bad, SEGMENT).unlink()

        def begin_anew() -> None:
            store.cut(0)
            store.begin_at(2 * SEGMENT)
            for block in other.log.blocks(2 * SEGMENT, other.log.end_offset):
                store.log.writer.log.append_raw(block.offset, bytes(block.view))
            store.log.sync()

        source, progress = MeddledCopy(good), MendProgress()
        progress.begin(plan_mending(StoreCopy(bad), [source]))
        source.meddle = begin_anew
        steps, kept = progress.plan.steps, bad.parent / "kept"
        mend_open(store, fill_store(store, nullcontext()), steps, kept, progress)

        assert 2 * SEGMENT == store.log.min_offset
    assert [] == progress.done
    assert not segment_file(bad, SEGMENT).exists()
    assert "whole" == verify_store(bad).verdict
