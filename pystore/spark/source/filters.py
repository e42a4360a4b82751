"""
The filters that Spark pushes down, as a `Selection`.

Only what surely leaves records out is taken; every filter is given back to Spark,
which asks it again.

A key leaves rows out, never segments. RocketMQ's index files know where a key may be,
but not where it is not: they are written behind the log by a thread of its own, the
newest is flushed only when it is full, no bound on disk says which records have their
entries, and records without keys have none, so that a gap cannot be seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from pystore.spark.plan.selection import Selection

__all__ = ["select"]


def select(selection: Selection, filters: Iterable[Filter]) -> Selection:
    """
    Returns the selection, narrowed by what the filters leave out.
    """
    for one in filters:
        attribute, values = getattr(one, "attribute", ()), _values(one)
        if attribute == ("topic",) and values is not None:
            selection = selection.only_topics(values)
        elif attribute == ("queueId",) and values is not None:
            selection = selection.only_queues(values)
        elif attribute in (("keys",), ("uniqKey",)) and values is not None:
            selection = selection.only_with(values)
        elif attribute == ("queueOffset",):
            selection = selection.queue_offsets(*_bounds(one))
        elif attribute == ("offset",):
            selection = selection.offsets(*_bounds(one))
        elif attribute == ("storeTimestamp",):
            selection = _time(selection, one)
    return selection


def _values(one: Filter) -> frozenset[Any] | None:
    """
    The only values that pass; ``None``: it does not say.
    """
    if isinstance(one, EqualTo):
        return frozenset([one.value])
    return frozenset(one.value) if isinstance(one, In) else None


def _bounds(one: Filter) -> tuple[int | None, int | None]:
    """
    The least value that passes, and the one above the largest.
    """
    value: Any = getattr(one, "value", None)
    if isinstance(one, EqualTo):
        return value, value + 1
    if isinstance(one, GreaterThan):
        return value + 1, None
    if isinstance(one, GreaterThanOrEqual):
        return value, None
    if isinstance(one, LessThan):
        return None, value
    if isinstance(one, LessThanOrEqual):
        return None, value + 1
    return None, None


def _time(selection: Selection, one: Filter) -> Selection:
    value: Any = getattr(one, "value", None)
    if not isinstance(value, datetime):
        return selection
    aware = value if value.tzinfo else value.astimezone()
    ms = int((aware - _ORIGIN).total_seconds() * 1000)
    # A millisecond of slack: stored times are whole ones, asked ones are not.
    if isinstance(one, EqualTo):
        return selection.times(ms - 1, ms + 1)
    if isinstance(one, GreaterThan | GreaterThanOrEqual):
        return selection.times(ms - 1, None)
    if isinstance(one, LessThan | LessThanOrEqual):
        return selection.times(None, ms + 1)
    return selection


_ORIGIN = datetime(1970, 1, 1, tzinfo=UTC)
