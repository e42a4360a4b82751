"""
Rows become groups, groups become runs: the plan of what is written.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lib.oracle import reference

from pystore.consumequeue.build import Dispatched, Group, groups_of, plan_group
from pystore.consumequeue.queue import ENTRY_DTYPE
from pystore.errors import CorruptError


def _group(*entries: tuple[int, int]) -> Group:
    """
    A group of 100-byte records (offset, queue offset).
    """
    array = np.zeros(len(entries), ENTRY_DTYPE)
    array["offset"] = [offset for offset, _ in entries]
    array["size"] = 100
    return Group("T", 0, np.array([index for _, index in entries]), array)


def _plan(group: Group, **changes: Any) -> tuple[list[Any], int, list[Any], list[Any]]:
    """
    Runs as (queue offset, offsets), repeated, gaps and refused offsets.
    """
    state: dict[str, Any] = {
        "next_index": 0,
        "end_offset": 0,
        "is_new": False,
        "gap_max": 0,
    }
    plan = plan_group(group, **(state | changes))
    return (
        [(index, run["offset"].tolist()) for index, run in plan.runs],
        plan.repeated,
        [tuple(gap)[2:] for gap in plan.gaps],
        [refusal.offset for refusal in plan.refused],
    )


def test_a_group_that_follows_is_one_run() -> None:
    """
    The usual case.
    """
    group = _group((500, 5), (700, 6), (800, 7))

    assert ([(5, [500, 700, 800])], 0, [], []) == _plan(
        group, next_index=5, end_offset=500
    )


def test_records_that_have_their_entry_are_passed_over() -> None:
    """
    By where they end, and by their queue offset.
    """
    group = _group((300, 3), (400, 4), (500, 5))

    assert ([(5, [500])], 2, [], []) == _plan(group, next_index=5, end_offset=500)
    assert ([(5, [500])], 2, [], []) == _plan(group, next_index=5, end_offset=0)
    assert ([], 3, [], []) == _plan(group, next_index=6, end_offset=600)


def test_a_queue_s_first_entry_may_stand_anywhere() -> None:
    """
    The log has deleted the records before it.
    """
    group = _group((500, 70), (600, 71))

    assert ([(70, [500, 600])], 0, [], []) == _plan(group, is_new=True)


def test_a_gap_is_an_error_unless_it_may_be_filled() -> None:
    """
    Also one between two records of the same group.
    """
    group = _group((500, 5), (600, 8))

    with pytest.raises(CorruptError, match="has queue offset 8") as raised:
        _plan(group, next_index=5)

    assert 600 == raised.value.offset
    assert ([(5, [500]), (8, [600])], 0, [(6, 2)], []) == _plan(
        group, next_index=5, gap_max=2
    )
    assert ([(5, [500])], 0, [], [600]) == _plan(group, next_index=5, gap_max=1)


def test_queue_offsets_that_fall_back_are_passed_over() -> None:
    """
    As RocketMQ does: the slot has an entry.
    """
    group = _group((500, 5), (600, 5), (700, 6), (800, 4), (900, 7))

    assert ([(5, [500]), (6, [700]), (7, [900])], 2, [], []) == _plan(
        group, next_index=5
    )


def test_impossible_queue_offsets_are_refused() -> None:
    """
    No file could be named for them.
    """
    group = _group((0, 2**62))

    assert ([], 0, [], [0]) == _plan(group, is_new=True)


def test_rows_are_grouped_in_log_order_whatever_their_ids() -> None:
    """
    Against a plain loop, with random topics and queue ids of either sign.
    """
    seed = 20240701
    random = np.random.default_rng(seed)
    rows = np.zeros(500, reference.ROW)
    rows["offset"] = 100 * np.arange(500)
    rows["size"] = random.integers(91, 100, 500)
    rows["queue_offset"] = random.integers(0, 2**40, 500)
    rows["tags_code"] = random.integers(-(2**31), 2**31, 500)
    rows["topic_id"] = random.integers(0, 3, 500) * 2**30
    rows["queue_id"] = random.integers(-2, 3, 500)

    groups = list(groups_of(rows, lambda n: f"topic{n}", Dispatched()))

    expected: dict[tuple[str, int], list[tuple[int, ...]]] = {}
    for row in rows:
        key = f"topic{row['topic_id']}", int(row["queue_id"])
        names = ("queue_offset", "offset", "size", "tags_code")
        expected.setdefault(key, []).append(tuple(int(row[name]) for name in names))
    assert len(expected) == len(groups)
    assert expected == {
        (group.topic, group.queue_id): [
            (index, *entry)
            for index, entry in zip(
                group.indexes.tolist(), group.entries.tolist(), strict=True
            )
        ]
        for group in groups
    }


def test_no_rows_are_no_groups() -> None:
    """
    Neither none at all nor only transactions that are not committed.
    """
    result = Dispatched()
    rows = np.zeros(3, reference.ROW)
    rows["sys_flag"] = 0xC

    assert [] == list(groups_of(rows[:0], lambda _: "", result))
    assert [] == list(groups_of(rows, lambda _: "", result))
    assert 3 == result.transactions


def test_inner_batches_are_refused_by_name() -> None:
    """
    They belong into another kind of queue, which pystore does not write.
    """
    result = Dispatched()
    rows = np.zeros(3, reference.ROW)
    rows["offset"] = [0, 100, 200]
    rows["sys_flag"] = [0, 0x80, 0x80]

    (group,) = groups_of(rows, lambda _: "T", result)

    assert 1 == len(group.entries)
    (refusal,) = result.refused
    assert (100, 2) == refusal[:2]
    assert "batch consume queue" in refusal.reason
