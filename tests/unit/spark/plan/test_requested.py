"""
Columns and rows requested by the options.
"""

from __future__ import annotations

from pystore.spark.plan.options import parse_options
from pystore.spark.plan.requested import requested_columns, requested_rows


def _names(**given: str) -> list[str]:
    options = parse_options({"path": "store", **given})
    return [column.name for column in requested_columns(options)]


def test_bodies_and_damage_are_columns_if_an_option_requests_them() -> None:
    """
    Otherwise they are not read.
    """
    assert not {"body", "damage"} & set(_names())
    assert "body" in _names(includeBody="true")
    assert "damage" in _names(onDamage="report")


def test_named_columns_come_in_the_requested_order() -> None:
    """
    If damage is reported, it is the last one.
    """
    assert ["topic", "offset"] == _names(columns="topic,offset")
    assert ["topic", "damage"] == _names(columns="topic", onDamage="report")


def test_the_end_of_a_time_range_is_exclusive() -> None:
    """
    So adjacent ranges have no common record.
    """
    day = {"fromTime": "1970-01-01T00:00:01", "toTime": "1970-01-01T00:00:02"}

    chosen = requested_rows(parse_options({"path": "store", **day}))

    assert (1000, 1999) == (chosen.from_ms, chosen.to_ms)


def test_without_options_every_row_is_wanted() -> None:
    """
    A table holds all records of its stores.
    """
    assert not requested_rows(parse_options({"path": "store"})).needs_topics
