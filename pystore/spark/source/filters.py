"""
Translates the filters that Spark pushes down into a `Selection`.

A filter may only leave out records that it excludes for certain. Every filter is also
returned to Spark, which evaluates it again.

A filter on keys leaves out rows, never segments. RocketMQ's index files show where a
key may be, but not where it is missing: a thread of its own writes them after the log,
the newest file is flushed only when it is full, no bound on disk shows which records
have entries, and records without keys have none, so gaps cannot be detected.
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
    Returns the selection, narrowed by the filters.
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
    The only values that pass; ``None``: the filter lists no values.
    """
    if isinstance(one, EqualTo):
        return frozenset([one.value])
    return frozenset(one.value) if isinstance(one, In) else None


def _bounds(one: Filter) -> tuple[int | None, int | None]:
    """
    The least value that passes, and the end of the values, exclusive.
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
    # Stored times are whole milliseconds; the filter's time may not be.
    if isinstance(one, EqualTo):
        return selection.times(ms - 1, ms + 1)
    if isinstance(one, GreaterThan | GreaterThanOrEqual):
        return selection.times(ms - 1, None)
    if isinstance(one, LessThan | LessThanOrEqual):
        return selection.times(None, ms + 1)
    return selection


_ORIGIN = datetime(1970, 1, 1, tzinfo=UTC)
