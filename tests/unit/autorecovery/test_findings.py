"""
What answers prove, as values.
"""

from __future__ import annotations

from typing import Any

import pytest
from lib.autorecovery.audits import SIZE, a_broker, a_set
from lib.values import replace

from pystore.autorecovery.dead_segment import DeadSegment
from pystore.autorecovery.findings import (
    file_findings,
    is_whole_at,
    reports_copy,
    source_findings,
)
from pystore.autorecovery.mark import Missing, Priority, Reason, SegmentMark
from pystore.seals import BLOCK_BYTES
from pystore.segments.order import BadSource, ReplicaStat


def a_stat(**changes: Any) -> ReplicaStat:
    """An answer: segments 2 to 9, of which 9 is not settled."""
    stat = ReplicaStat("1-a", 2 * SIZE, 10 * SIZE, 9 * SIZE, SIZE)
    return replace(stat, **changes)


def test_only_settled_segments_of_the_log_are_judged() -> None:
    """D4: others may still be cut, or were deleted."""
    stat = a_stat(problems={n * SIZE: "missing" for n in (0, 1, 2, 8, 9)})

    assert [2 * SIZE, 8 * SIZE] == [one.base for one in file_findings(2, stat)]
    assert not is_whole_at(stat, 2 * SIZE)
    assert is_whole_at(stat, 3 * SIZE)
    assert not is_whole_at(stat, 9 * SIZE)
    assert not is_whole_at(stat, SIZE)


def test_a_hole_with_which_a_store_does_not_open_is_judged() -> None:
    """Above its settled end, too: no replication brings it."""
    stat = a_stat(problems={3 * SIZE: "missing"}, holes={9 * SIZE: "missing"})

    assert [3 * SIZE, 9 * SIZE] == [one.base for one in file_findings(2, stat)]
    assert not is_whole_at(stat, 9 * SIZE)


@pytest.mark.parametrize(
    ("offset", "blocks"),
    [
        (2 * SIZE, [(0,)]),
        (9 * SIZE - 1, [(SIZE // BLOCK_BYTES - 1,)]),
        (9 * SIZE, []),
        (2 * SIZE - 1, []),
    ],
)
def test_a_slave_names_the_block_of_its_source(
    offset: int, blocks: list[tuple[int, ...]]
) -> None:
    """Where the source has settled it."""
    stat = a_stat(bad_sources=(BadSource(1, offset),))
    found, unasked = source_findings(a_set(), a_broker(2), stat, {1: a_stat()})

    assert blocks == [one.fact.blocks for one in found]
    assert [] == unasked


def test_a_source_that_was_not_asked_is_asked_first() -> None:
    """One that is dead, gone, or of RocketMQ is not."""
    stat = a_stat(bad_sources=tuple(BadSource(n, 3 * SIZE) for n in (1, 3, 4, 9)))
    dead = replace(a_broker(3), is_alive=False)
    one = a_set("set", a_broker(1), a_broker(2), dead, a_broker(4, is_java=True))

    assert ([], [1]) == source_findings(one, a_broker(2), stat, {})


@pytest.mark.parametrize(
    ("broker_id", "incarnation", "reason", "is_reported"),
    [
        (2, "1-a", Reason.CORRUPT, False),
        (2, "2-b", Reason.CORRUPT, True),
        (2, "1-a", Reason.ABSENT, True),
        (2, "1-a", Reason.FILL, True),
        (3, "1-a", Reason.CORRUPT, True),
    ],
)
def test_a_dead_segment_returns_with_another_answer(
    broker_id: int, incarnation: str, reason: Reason, *, is_reported: bool
) -> None:
    """AR-R9: not with the one for which it was buried."""
    fact = Missing(reason, blocks=(0,) if reason is Reason.CORRUPT else ())
    mark = SegmentMark({2: fact}, Priority.LAST_COPY, 1, 1)
    dead = DeadSegment(mark, "none", 1, "w/0", {"asked": {"2": "1-a"}})
    stat = a_stat(incarnation=incarnation)

    assert is_reported == reports_copy(dead, 3 * SIZE, broker_id, stat)
    ill = replace(stat, problems={3 * SIZE: "missing"})
    assert not reports_copy(dead, 3 * SIZE, broker_id, ill)
