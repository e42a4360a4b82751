"""
What copies are worth, as values.
"""

from __future__ import annotations

import pytest
from lib.autorecovery.audits import SIZE, a_broker, a_set
from lib.values import replace

from pystore.autorecovery.copies import (
    FillPlan,
    broker_of,
    fill_plan,
    good_copies,
    is_short,
    priority_of,
    set_floor,
)
from pystore.autorecovery.mark import Priority


def test_the_floor_is_the_begin_of_the_master() -> None:
    """Not known without one, or of a broker of RocketMQ."""
    one = a_set("set", a_broker(1, begin=2 * SIZE), a_broker(2))

    assert 2 * SIZE == set_floor(one)
    assert -1 == set_floor(replace(one, master_id=None))
    assert -1 == set_floor(a_set("set", a_broker(1, is_java=True)))
    assert broker_of(one, 3) is None


@pytest.mark.parametrize(
    ("begin", "floor", "size", "count", "plan"),
    [
        (9, 0, SIZE, 3, FillPlan((8 * SIZE, 7 * SIZE, 6 * SIZE), 9)),
        (2, 0, SIZE, 3, FillPlan((SIZE, 0), 2)),
        (9, 8, SIZE, 3, FillPlan((8 * SIZE,), 1)),
        (9, 9, SIZE, 3, FillPlan((), 0)),
        (3, 9, SIZE, 3, FillPlan((), 0)),
    ],
)
def test_a_fill_needs_the_segments_down_to_the_floor(
    begin: int, floor: int, size: int, count: int, plan: FillPlan
) -> None:
    """From the top."""
    filling = a_broker(2, begin=begin * SIZE, is_filling=True)
    one = a_set("set", a_broker(1, begin=floor * SIZE), filling)

    assert plan == fill_plan(one, filling, size, count)


def test_a_fill_that_cannot_be_planned_says_why() -> None:
    """Each reason is another one."""
    filling = a_broker(2, begin=9 * SIZE, is_filling=True)
    useless = a_broker(2, begin=-1, is_filling=True)
    plans = [
        fill_plan(a_set("set", a_broker(1), filling), filling, 0, 4),
        fill_plan(a_set("set", a_broker(1, is_java=True), filling), filling, SIZE, 4),
        fill_plan(a_set("set", a_broker(1), useless), useless, SIZE, 4),
    ]

    assert all(one.bases == () and one.left == -1 for one in plans)
    assert 3 == len({one.why for one in plans} - {""})


def test_a_replica_is_short_by_its_own_retention_alone() -> None:
    """D1."""
    short, filling = a_broker(2, begin=SIZE), a_broker(3, begin=SIZE, is_filling=True)
    one = a_set("set", a_broker(1), short, filling)

    assert is_short(one, short)
    assert not is_short(one, filling)
    assert not is_short(one, one.brokers[0])


def test_good_copies_are_alive_and_have_the_segment() -> None:
    """One that is filled has what it was filled with; one of RocketMQ counts (D7)."""
    brokers = (
        a_broker(1),
        a_broker(2, begin=4 * SIZE, is_filling=True),
        a_broker(3, is_java=True),
        replace(a_broker(4), is_alive=False),
        a_broker(5, begin=-1),
        a_broker(6),
    )
    one = a_set("set", *brokers)

    assert (1, 3, 6) == good_copies(one, 3 * SIZE)
    assert (1, 2, 3) == good_copies(one, 4 * SIZE, {6})


def test_urgency_follows_from_the_good_copies() -> None:
    """An acknowledgement needs the SyncStateSet, here of three."""
    found = [priority_of(a_set(), good) for good in range(4)]

    assert [
        Priority.LAST_COPY,
        Priority.LAST_COPY,
        Priority.FEWER_THAN_ACKS,
        Priority.FEWER_THAN_WANTED,
    ] == found
