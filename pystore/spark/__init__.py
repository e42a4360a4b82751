"""
Commit logs in Spark: ``spark.read.format("pystore").load(path)``.

``register(session)`` makes the format known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(session: SparkSession, *, push_filters: bool = False) -> None:
    """
    Make ``format("pystore")`` known to a session.

    Filters are pushed down only on request, because Spark (4.3 at least) keeps what it
    pushed into a Python source with the loaded table: a later query on the same
    DataFrame, or another branch of the same query, would read what an earlier filter
    had left. Whoever asks for it loads the table anew for each query. The options
    ``topics``, ``fromTime`` and ``toTime`` leave out as much, and are always safe.

    Args:
        session: of PySpark 4.1 or newer.
        push_filters: let filters reach the source.
    """
    # PySpark is needed from here on; the package alone must not need it.
    from pystore.spark.source import FilteringSource, PystoreSource  # noqa: PLC0415

    if not push_filters:
        session.dataSource.register(PystoreSource)
        return
    session.conf.set(_PUSHDOWN, "true")
    session.dataSource.register(FilteringSource)
