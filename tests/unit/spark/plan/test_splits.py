"""
Splits of stores: the segments that are opened.
"""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest
from lib.store.logs import SEGMENT_SIZE, make_root, open_log

from pystore.core.log_reader import LogReader
from pystore.epochs.file import encode_epochs
from pystore.epochs.table import EpochTable
from pystore.errors import FormatError
from pystore.fs.layout import EPOCH_FILE
from pystore.message.message import Message
from pystore.spark.plan.options import SourceOptions
from pystore.spark.plan.selection import Selection
from pystore.spark.plan.split import Split
from pystore.spark.plan.splits import plan_range, plan_splits
from pystore.store.commit_log import CommitLog


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """
    A store of a few segments.
    """
    root = make_root(tmp_path)
    with open_log(root) as log:
        for _ in range(60):
            log.append(Message("T", bytes(5000)).form)
    return root


def plan(
    root: Path, selection: Selection | None = None, **chosen: int | None
) -> list[Split]:
    """
    The splits of one store.
    """
    options = SourceOptions((str(root),), **chosen)  # type: ignore[arg-type]
    return plan_splits([root], options, selection or Selection(), with_epochs=True)


def test_a_segment_is_a_split(root: Path) -> None:
    """
    From its first byte to its last one, or to the log's end.
    """
    splits = plan(root)

    assert list(range(0, len(splits) * SEGMENT_SIZE, SEGMENT_SIZE)) == [
        split.base for split in splits
    ]
    assert splits[-1].end == splits[-1].to_offset < splits[-1].base + SEGMENT_SIZE


def test_a_smaller_split_is_cut_out_of_one_segment(root: Path) -> None:
    """
    Without a gap, for any size.
    """
    splits = plan(root, split_bytes=10_000, from_offset=5, to_offset=2 * SEGMENT_SIZE)

    assert 14 == len(splits)
    assert (5, 2 * SEGMENT_SIZE) == (splits[0].from_offset, splits[-1].to_offset)
    for one, other in pairwise(splits):
        assert one.to_offset == other.from_offset


def test_segments_of_other_times_are_not_opened(root: Path) -> None:
    """
    The first records of all segments bound their times, within 3 s, or what the user
    says.
    """
    with LogReader(root) as log:
        ms = log.read(0).store_ms

    assert plan(root) == plan(root, Selection(to_ms=ms - 2000))
    assert [] == plan(root, Selection(to_ms=ms - 4000))
    assert plan(root) == plan(root, Selection(to_ms=ms - 4000), skew_ms=60_000)
    assert plan(root) == plan(root, Selection(from_ms=ms))
    late = plan(root, Selection(from_ms=ms + 3_600_000))
    assert [plan(root)[-1]] == late  # the last segment has no next one as a bound


def test_epochs_come_from_the_epoch_file(root: Path) -> None:
    """
    Without a file the epoch is unknown; an invalid file is an error.
    """
    assert () == plan(root)[0].epochs
    table = EpochTable.of([(1, 0), (4, 70_000)])
    (root / EPOCH_FILE).write_bytes(encode_epochs(table))

    first, second = plan(root)[:2]
    assert ((1, 0, SEGMENT_SIZE),) == first.epochs
    assert (1, SEGMENT_SIZE, 70_000) == second.epochs[0]
    assert (4, 70_000, 2 * SEGMENT_SIZE) == second.epochs[1]
    (root / EPOCH_FILE).write_bytes(b"garbage")
    with pytest.raises(FormatError, match="epochFileCheckpoint"):
        plan(root)


def test_a_scan_begins_at_a_known_record(root: Path) -> None:
    """
    In the first segment; the others begin with a record.
    """
    with LogReader(root) as log:
        at = log.read(0).size
        splits = plan_range(
            root,
            log,
            SourceOptions((str(root),), split_bytes=40_000),
            Selection().offsets(at, SEGMENT_SIZE + 10),
            3 * SEGMENT_SIZE,
            with_epochs=False,
            record_at=at,
            generation=3,
        )

    assert [at, at, SEGMENT_SIZE] == [split.first for split in splits]
    assert {3} == {split.generation for split in splits}


def test_an_ill_segment_has_a_split_that_says_so(root: Path) -> None:
    """
    Whatever is selected: no head of a record, and no queue, tells what it held.
    """
    path = root / "commitlog" / f"{SEGMENT_SIZE:020}"
    os.truncate(path, 100)
    selection = Selection(from_ms=1 << 60)
    splits = plan(root, selection=selection)

    (ill,) = [split for split in splits if split.ill is not None]
    assert ill.ill is not None
    assert (SEGMENT_SIZE, SEGMENT_SIZE + 100) == (ill.base, ill.ill[0])
    assert "the file has 100 bytes" in ill.ill[1]
    assert [None] * len(plan(root)[2:]) == [split.ill for split in plan(root)[2:]]


def test_the_live_page_has_the_generation_of_the_cuts(tmp_path: Path) -> None:
    """
    So tasks notice a cut; a store without a live page has no generation.
    """
    assert plan(make_root(tmp_path)) == []
    with CommitLog(tmp_path / "live", segment_size=SEGMENT_SIZE) as log:
        log.append(Message("T", b"1"))
        second = log.append(Message("T", b"2")).offset
        before = plan(log.path)[0].generation
        log.cut(second)

        assert before is not None
        assert before + 1 == plan(log.path)[0].generation
