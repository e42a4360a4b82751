"""
What the options of a table ask for.
"""

from __future__ import annotations

from pystore.spark.plan.options import parse_options
from pystore.spark.plan.splits import requested_columns, requested_rows


def _names(**given: str) -> list[str]:
    options = parse_options({"path": "store", **given})
    return [column.name for column in requested_columns(options)]


def test_bodies_and_damage_are_columns_where_an_option_asks_for_them() -> None:
    """
    Nobody pays for what was not asked for.
    """
    assert not {"body", "damage"} & set(_names())
    assert "body" in _names(includeBody="true")
    assert "damage" in _names(onDamage="report")


def test_named_columns_come_in_the_order_asked_for() -> None:
    """
    And damage behind them, where it is to be reported.
    """
    assert ["topic", "offset"] == _names(columns="topic,offset")
    assert ["topic", "damage"] == _names(columns="topic", onDamage="report")


def test_the_end_of_a_time_is_left_out() -> None:
    """
    So that ranges side by side have no record in common.
    """
    day = {"fromTime": "1970-01-01T00:00:01", "toTime": "1970-01-01T00:00:02"}

    chosen = requested_rows(parse_options({"path": "store", **day}))

    assert (1000, 1999) == (chosen.from_ms, chosen.to_ms)


def test_without_options_every_row_is_asked_for() -> None:
    """
    A table is all of its stores.
    """
    assert not requested_rows(parse_options({"path": "store"})).needs_topics
