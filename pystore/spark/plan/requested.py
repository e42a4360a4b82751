"""
The columns and rows that the options of a read request. Pure, without the core.
"""

from __future__ import annotations

from pystore.spark.plan.options import SourceOptions
from pystore.spark.plan.schema import Column, choose_columns, without_nulls
from pystore.spark.plan.selection import Selection

__all__ = ["requested_columns", "requested_rows"]


def requested_columns(options: SourceOptions) -> tuple[Column, ...]:
    """
    Returns the columns of a table without a schema of the user.
    """
    with_damage = options.on_damage == "report"
    columns = choose_columns(
        options.columns, with_body=options.include_body, with_damage=with_damage
    )
    return without_nulls(columns, with_damage=with_damage)


def requested_rows(options: SourceOptions) -> Selection:
    """
    Returns the selection by the options' topics and times.
    """
    found = (
        Selection() if options.topics is None else Selection().only_like(options.topics)
    )
    if options.queues is not None:
        found = found.only_queues(options.queues)
    to_ms = None if options.to_ms is None else options.to_ms - 1
    return found.times(options.from_ms, to_ms)
