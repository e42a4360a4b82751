"""
What the options of a table ask for: which columns, which rows. Pure.
"""

from __future__ import annotations

from pystore.spark.columns import Column, choose_columns, without_nulls
from pystore.spark.options import SourceOptions
from pystore.spark.selection import Selection

__all__ = ["asked_columns", "asked_rows"]


def asked_columns(options: SourceOptions) -> tuple[Column, ...]:
    """
    Returns the columns, where the user gave no schema.
    """
    with_damage = options.on_damage == "report"
    columns = choose_columns(
        options.columns, with_body=options.include_body, with_damage=with_damage
    )
    return without_nulls(columns, with_damage=with_damage)


def asked_rows(options: SourceOptions) -> Selection:
    """
    Returns what topics and times leave.
    """
    found = (
        Selection() if options.topics is None else Selection().only_like(options.topics)
    )
    to_ms = None if options.to_ms is None else options.to_ms - 1
    return found.times(options.from_ms, to_ms)
