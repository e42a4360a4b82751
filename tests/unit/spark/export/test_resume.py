"""
The start of a run, and logs that have changed since the last one.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from lib.spark.exports import SEGMENT, Growing, export_here, visible

from pystore.errors import CutError, OffsetOutOfRange
from pystore.message.message import Message
from pystore.spark.export.resume import ExportBounds, StoreExport
from pystore.spark.source.followed_log import FollowedLog
from pystore.spark.source.offsets import StreamOffset
from pystore.spark.source.replicas import LogReplicas
from pystore.store.commit_log import CommitLog

SEED = 20260731
GAPS = ExportBounds(allow_gap=True)


@pytest.fixture
def store(tmp_path: Path) -> Growing:
    """
    A store of 300 records in several segments.
    """
    return Growing.new(tmp_path / "store", 300)


def plan(
    store: Growing, before: StreamOffset | None = None, **bounds: Any
) -> StoreExport:
    """
    The part of a run for the store.
    """
    return StoreExport(followed(store.root), before, ExportBounds(**bounds))


def followed(root: Path) -> FollowedLog:
    """
    The log of one store.
    """
    return FollowedLog(LogReplicas(str(root), (str(root),)), published=False)


def test_the_first_run_begins_at_the_start_and_the_next_at_its_end(
    store: Growing,
) -> None:
    """
    The last record below the exported end confirms the log.
    """
    first = plan(store)
    again = plan(store, first.exported_end)
    store.grow(1)
    more = plan(store, again.exported_end)

    assert (0, None) == (first.from_offset, first.gap)
    assert store.offsets[299] == first.exported_end.record
    assert (0, []) == (again.size, again.splits(SEGMENT, with_epochs=False))
    assert again.exported_end == first.exported_end
    assert store.offsets[300] == more.from_offset == first.exported_end.offset
    (split,) = more.splits(SEGMENT, with_epochs=False)
    assert (more.from_offset, more.exported_end.offset) == (
        split.record_at,
        split.to_offset,
    )
    more.require_unchanged()


def test_a_user_chooses_a_range_of_offsets(store: Growing) -> None:
    """
    Records that begin in the range are exported; later runs continue behind it.
    """
    at = store.offsets

    part = plan(store, from_offset=at[10] - 1, to_offset=at[20] + 1)

    assert (at[10], at[21]) == (part.from_offset, part.exported_end.offset)
    assert at[21] == plan(store, part.exported_end, from_offset=at[10]).from_offset
    assert 0 == plan(store, part.exported_end, to_offset=at[5]).size


def test_only_confirmed_records_are_exported(tmp_path: Path) -> None:
    """
    A new master may cut records above the confirm offset.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        log.append(Message("T", b"one"))
        confirmed = log.end_offset
        log.append(Message("T", b"two"))
        log.writer.log.confirm(confirmed)

        found = StoreExport(followed(log.path), None, ExportBounds())

    assert confirmed == found.exported_end.offset


def test_an_empty_store_has_no_new_records(tmp_path: Path) -> None:
    """
    It has no last record either.
    """
    found = plan(Growing.new(tmp_path / "store"))

    assert (0, StreamOffset(0)) == (found.size, found.exported_end)


def test_a_log_that_was_cut_below_the_exported_end_is_an_error(store: Growing) -> None:
    """
    With --allow-gap the run continues at the cut.
    """
    exported_end, at = plan(store).exported_end, store.offsets[100]
    store.cut(at)

    with pytest.raises(
        CutError, match=f"cut below offset {exported_end.offset}.*--allow-gap"
    ):
        plan(store, exported_end)
    found = plan(store, exported_end, allow_gap=True)

    assert (at, at) == (found.from_offset, found.exported_end.offset)
    assert found.gap
    assert (exported_end.offset, at) == (found.gap.from_offset, found.gap.to_offset)


def test_a_log_that_was_cut_and_grew_again_is_an_error(store: Growing) -> None:
    """
    Offsets alone do not show it; records written since the cut are new.
    """
    before, at = plan(store), store.offsets[100]
    store.cut(at)
    store.grow(400)

    with pytest.raises(CutError, match="nothing was published"):
        before.require_unchanged()
    with pytest.raises(CutError, match="was cut below"):
        plan(store, before.exported_end)
    found = plan(store, before.exported_end, allow_gap=True)

    assert found.gap
    assert (at, at) == (found.from_offset, found.gap.to_offset)
    assert found.size


def test_records_deleted_before_they_were_exported_are_an_error(store: Growing) -> None:
    """
    With --allow-gap the run continues at the start of the log.
    """
    exported_end = plan(store, to_offset=store.offsets[5]).exported_end
    store.delete(SEGMENT)

    with pytest.raises(OffsetOutOfRange, match=f"to {SEGMENT} were deleted"):
        plan(store, exported_end)
    found = plan(store, exported_end, allow_gap=True)

    assert SEGMENT == found.from_offset
    assert found.gap


def test_a_start_above_the_exported_end_is_an_error(store: Growing) -> None:
    """
    It would leave a gap like any other.
    """
    exported_end = plan(store, to_offset=store.offsets[5]).exported_end

    with pytest.raises(OffsetOutOfRange, match="were never exported"):
        plan(store, exported_end, from_offset=store.offsets[9])


def test_a_deleted_last_record_is_no_error(store: Growing) -> None:
    """
    Retention may delete all segments up to the exported end.
    """
    store.delete(SEGMENT)

    assert SEGMENT == plan(store, StreamOffset(SEGMENT, 1000, 1)).from_offset


def test_a_run_goes_on_at_the_fork_after_any_number_of_cuts(tmp_path: Path) -> None:
    """
    Random histories: each record that stands in the log at the end was exported once,
    also if it was written between two cuts.
    """
    chance = random.Random(SEED)
    for case in range(12):
        store = Growing.new(tmp_path / f"store{case}", 60)
        into = tmp_path / f"out{case}"
        for _ in range(8):
            export_here(store.root, into, bodies=True, bounds=GAPS)
            for _ in range(chance.randrange(5)):
                if store.offsets:
                    store.cut(chance.choice(store.offsets))
                store.grow(chance.randrange(40))
        export_here(store.root, into, bodies=True, bounds=GAPS)

        found = Counter((row["offset"], row["keys"]) for row in visible(into))
        for record in store.keyed:
            assert 1 == found[record], f"seed {SEED}, case {case}: {record}"


def test_without_a_live_page_kept_records_show_where_to_go_on(store: Growing) -> None:
    """
    Another host reads the store: no record is lost, and few are exported twice.
    """
    exported_end = plan(store).exported_end
    for record in (250, 200, 240):
        store.cut(store.offsets[record] if record < len(store.offsets) else 0)
        store.grow(100)
    fork = store.offsets[200]
    (store.root / "meta").rename(store.root.with_name("meta"))

    found = plan(store, exported_end, allow_gap=True)

    assert found.from_offset <= fork
    assert fork - found.from_offset <= 2 * SEGMENT


def test_a_store_of_another_log_under_the_same_path_is_read_from_its_start(
    store: Growing,
) -> None:
    """
    Its cuts are not those that the position saw.
    """
    exported_end = plan(store).exported_end
    shutil.rmtree(store.root)
    other = Growing.new(store.root, 400)
    other.cut(other.offsets[390])

    assert 0 == plan(other, exported_end, allow_gap=True).from_offset
