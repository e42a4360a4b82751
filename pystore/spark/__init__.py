"""
Commit logs in Spark: ``spark.read.format("pystore").load(path)``.

``register(session)`` makes the format known. ``load(session, path)`` is the same table
for whoever wants all of it: Spark copies its rows once less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["load", "register"]

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
    from pystore.spark.source.source import FilteringSource, PystoreSource  # noqa: PLC0415

    if not push_filters:
        session.dataSource.register(PystoreSource)
        return
    session.conf.set(_PUSHDOWN, "true")
    session.dataSource.register(FilteringSource)


def load(session: SparkSession, *paths: str | Path, **options: object) -> DataFrame:
    """
    Returns the records of stores as a table, as they are now.

    Args:
        session: of PySpark 4.1 or newer; the format need not be registered.
        paths: roots of stores, file URLs or globs.
        options: those of ``format("pystore")`` for a batch, by the same names.

    Raises:
        InvalidError: an option that is unknown or means nothing, or no path.
        NotAStoreError: a path matches nothing, or no store.
    """
    # PySpark is needed from here on; the package alone must not need it.
    from pystore.spark.source.load import load as load_table  # noqa: PLC0415

    return load_table(session, *paths, **options)
