"""
Where an export goes on, and logs that are not the one that was exported.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lib.spark.exports import SEGMENT, Growing

from pystore.errors import CutError, OffsetOutOfRange
from pystore.message.message import Message
from pystore.spark.export.resume import ExportBounds, StoreExport
from pystore.spark.source.offsets import StreamOffset
from pystore.store.commit_log import CommitLog


@pytest.fixture
def store(tmp_path: Path) -> Growing:
    """
    Of 300 records in several segments.
    """
    return Growing.new(tmp_path / "store", 300)


def plan(
    store: Growing, before: StreamOffset | None = None, **bounds: Any
) -> StoreExport:
    """
    What a run does with the store.
    """
    return StoreExport(store.root, before, ExportBounds(**bounds))


def test_a_store_begins_at_its_start_and_goes_on_at_its_end(store: Growing) -> None:
    """
    The last record below the position vouches for the log.
    """
    first = plan(store)
    again = plan(store, first.position)
    store.grow(1)
    more = plan(store, again.position)

    assert (0, None) == (first.from_offset, first.gap)
    assert store.offsets[299] == first.position.record
    assert (0, []) == (again.size, again.splits(SEGMENT, with_epochs=False))
    assert again.position == first.position
    assert store.offsets[300] == more.from_offset == first.position.offset
    (split,) = more.splits(SEGMENT, with_epochs=False)
    assert (more.from_offset, more.position.offset) == (
        split.record_at,
        split.to_offset,
    )
    more.require_unchanged()


def test_a_user_chooses_a_part(store: Growing) -> None:
    """
    Records that begin in a range; later runs go on behind it.
    """
    at = store.offsets

    part = plan(store, from_offset=at[10] - 1, to_offset=at[20] + 1)

    assert (at[10], at[21]) == (part.from_offset, part.position.offset)
    assert at[21] == plan(store, part.position, from_offset=at[10]).from_offset
    assert 0 == plan(store, part.position, to_offset=at[5]).size


def test_only_what_is_confirmed_is_exported(tmp_path: Path) -> None:
    """
    What replicas may not agree on yet could be cut by a new master.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        log.append(Message("T", b"one"))
        confirmed = log.end_offset
        log.append(Message("T", b"two"))
        log.writer.log.confirm(confirmed)

        found = StoreExport(tmp_path / "store", None, ExportBounds())

    assert confirmed == found.position.offset


def test_an_empty_store_has_nothing_new(tmp_path: Path) -> None:
    """
    And no record that could vouch for it.
    """
    found = plan(Growing.new(tmp_path / "store"))

    assert (0, StreamOffset(0)) == (found.size, found.position)


def test_a_log_that_was_cut_below_the_position_is_told(store: Growing) -> None:
    """
    It goes on where it was cut, if somebody says so.
    """
    position, at = plan(store).position, store.offsets[100]
    store.cut(at)

    with pytest.raises(CutError, match=f"cut below {position.offset}.*--allow-gap"):
        plan(store, position)
    found = plan(store, position, allow_gap=True)

    assert (at, at) == (found.from_offset, found.position.offset)
    assert found.gap
    assert (position.offset, at) == (found.gap.from_offset, found.gap.to_offset)


def test_a_log_that_was_cut_and_grew_again_is_told(store: Growing) -> None:
    """
    Offsets alone would not show it; what was written since the cut is new.
    """
    before, at = plan(store), store.offsets[100]
    store.cut(at)
    store.grow(400)

    with pytest.raises(CutError, match="nothing was published"):
        before.require_unchanged()
    with pytest.raises(CutError, match="was cut below"):
        plan(store, before.position)
    found = plan(store, before.position, allow_gap=True)

    assert found.gap
    assert (at, at) == (found.from_offset, found.gap.to_offset)
    assert found.size


def test_what_was_deleted_before_it_was_exported_is_told(store: Growing) -> None:
    """
    It goes on where the log begins, if somebody says so.
    """
    position = plan(store, to_offset=store.offsets[5]).position
    store.delete(SEGMENT)

    with pytest.raises(OffsetOutOfRange, match=f"to {SEGMENT} were deleted"):
        plan(store, position)
    found = plan(store, position, allow_gap=True)

    assert SEGMENT == found.from_offset
    assert found.gap


def test_what_a_user_would_leave_out_is_told(store: Growing) -> None:
    """
    A later beginning is a gap like any other.
    """
    position = plan(store, to_offset=store.offsets[5]).position

    with pytest.raises(OffsetOutOfRange, match="were never exported"):
        plan(store, position, from_offset=store.offsets[9])


def test_a_deleted_record_vouches_for_nothing(store: Growing) -> None:
    """
    All segments up to the position may go.
    """
    store.delete(SEGMENT)

    assert SEGMENT == plan(store, StreamOffset(SEGMENT, 1000, 1)).from_offset
