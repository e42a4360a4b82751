"""
The filters that Spark pushes down, as a `Selection`.

Only what surely leaves records out is taken; every filter is given back to Spark,
which asks it again.
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

from pystore.spark.selection import Selection

__all__ = ["select"]


def select(selection: Selection, filters: Iterable[Filter]) -> Selection:
    """
    Returns the selection, narrowed by what the filters leave out.
    """
    for one in filters:
        attribute = getattr(one, "attribute", ())
        if attribute == ("topic",):
            selection = _topic(selection, one)
        elif attribute == ("queueId",):
            selection = _queue(selection, one)
        elif attribute == ("offset",):
            selection = selection.offsets(*_bounds(one, 1))
        elif attribute == ("storeTimestamp",):
            selection = _time(selection, one)
    return selection


def _topic(selection: Selection, one: Filter) -> Selection:
    if isinstance(one, EqualTo):
        return selection.only_topics(frozenset([one.value]))
    if isinstance(one, In):
        return selection.only_topics(frozenset(one.value))
    return selection


def _queue(selection: Selection, one: Filter) -> Selection:
    if isinstance(one, EqualTo):
        return selection.only_queues(frozenset([one.value]))
    if isinstance(one, In):
        return selection.only_queues(frozenset(one.value))
    return selection


def _bounds(one: Filter, step: int) -> tuple[int | None, int | None]:
    """
    The least value that passes, and the one above the largest.
    """
    value: Any = getattr(one, "value", None)
    if isinstance(one, EqualTo):
        return value, value + step
    if isinstance(one, GreaterThan):
        return value + step, None
    if isinstance(one, GreaterThanOrEqual):
        return value, None
    if isinstance(one, LessThan):
        return None, value
    if isinstance(one, LessThanOrEqual):
        return None, value + step
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
