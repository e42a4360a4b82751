"""
Filters that Spark pushes, as selections.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from pystore.spark.plan.selection import Selection
from pystore.spark.source.filters import select


def test_filters_narrow_the_selection() -> None:
    """
    Each by its bound; other filters are ignored.
    """
    given: list[Filter] = [
        IsNotNull(("topic",)),
        EqualTo(("tags",), "k"),
        In(("topic",), ("A", "B")),
        EqualTo(("queueId",), 3),
        GreaterThan(("offset",), 10),
        LessThanOrEqual(("offset",), 99),
        GreaterThanOrEqual(("offset",), 5),
        LessThan(("offset",), 1000),
    ]

    assert Selection(frozenset(["A", "B"]), frozenset([3]), 11, 100) == select(
        Selection(), given
    )


def test_times_are_narrowed_with_a_millisecond_to_spare() -> None:
    """
    Stored times are whole milliseconds, those of filters may not be.
    """
    at = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)

    found = select(
        Selection(),
        [GreaterThan(("storeTimestamp",), at), LessThan(("storeTimestamp",), at)],
    )

    assert (999, 1001) == (found.from_ms, found.to_ms)


def test_filters_on_keys_and_queue_offsets_narrow_the_selection() -> None:
    """
    A value that must be in the properties, and a range of queue offsets.
    """
    found = select(
        Selection(),
        [
            EqualTo(("keys",), "k1"),
            In(("uniqKey",), ("u1", "u2")),
            GreaterThanOrEqual(("queueOffset",), 5),
            LessThan(("queueOffset",), 9),
        ],
    )

    assert (frozenset(["k1"]), frozenset(["u1", "u2"])) == found.texts
    assert (5, 9) == (found.from_queue_offset, found.to_queue_offset)
