"""
The columns of the Spark source.
"""

from __future__ import annotations

import pytest

from pystore.errors import InvalidError
from pystore.spark.plan.schema import (
    BODY,
    COLUMNS,
    DAMAGE,
    choose_columns,
    column_of,
    ddl,
    needs_of,
    without_nulls,
)


def test_bodies_and_damage_come_only_where_they_are_asked_for() -> None:
    """
    A body is most of a record, and damage is rare.
    """
    plain = [c.name for c in choose_columns(None, with_body=False, with_damage=False)]
    whole = [c.name for c in choose_columns(None, with_body=True, with_damage=True)]

    assert whole == list(COLUMNS)
    assert plain == [name for name in COLUMNS if name not in (BODY, DAMAGE)]


def test_columns_come_in_the_requested_order() -> None:
    """
    If damage is reported, it is always one of them.
    """
    found = choose_columns(["topic", "offset"], with_body=True, with_damage=True)

    assert "`topic` string, `offset` bigint, `damage` string" == ddl(found)
    assert {"topic"} == needs_of(found)


@pytest.mark.parametrize(
    ("names", "message"),
    [(["topics"], "'topics' is unknown"), (["topic", "topic"], "requested twice")],
)
def test_unknown_columns_are_refused(names: list[str], message: str) -> None:
    """
    The error lists all names.
    """
    with pytest.raises(InvalidError, match=message):
        choose_columns(names, with_body=False, with_damage=False)


def test_columns_that_are_never_null_are_not_nullable() -> None:
    """
    Spark checks no value of them; if damage is a row, only its place is never null.
    """
    names = ["size", "epoch", "topic", "properties"]
    columns = choose_columns(names, with_body=False, with_damage=False)

    sound = without_nulls(columns, with_damage=False)
    damaged = without_nulls(columns, with_damage=True)

    assert [False, True, False, False] == [one.is_nullable for one in sound]
    assert [False, True, True, True] == [one.is_nullable for one in damaged]
    assert "`size` int NOT NULL, `epoch` bigint" == ddl(sound[:2])


def test_names_have_any_case() -> None:
    """
    As everywhere in Spark; a name twice is an error.
    """
    found = choose_columns(["TOPIC", "bodylength"], with_body=False, with_damage=False)

    assert ["topic", "bodyLength"] == [column.name for column in found]
    with pytest.raises(InvalidError, match="'topic' is requested twice"):
        choose_columns(["topic", "Topic"], with_body=False, with_damage=False)
    assert ("topic", "TOPIC") == (
        column_of("TOPIC", "string").name,
        column_of("TOPIC", "string").alias,
    )
    assert ("extra", "date", "") == (
        column_of("extra", "date").name,
        column_of("extra", "date").type,
        column_of("extra", "date").alias,
    )
