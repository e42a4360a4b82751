"""
Commit logs in Spark: ``spark.read.format("pystore").load(path)``.

``register(session)`` adds the format to a session. ``load(session, path)`` returns the
same table, and is faster for reading whole logs: Spark copies each row once less.
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
    Adds ``format("pystore")`` to a session.

    Filters are pushed down only on request, because Spark (4.3 at least) keeps pushed
    filters with the loaded table: a later query on the same DataFrame, or another
    branch of the same query, would read only the records that an earlier filter left.
    With ``push_filters`` load the table again for each query. The options ``topics``,
    ``fromTime`` and ``toTime`` leave out as much, and are always safe.

    Args:
        session: of PySpark 4.1 or newer.
        push_filters: whether Spark may pass filters to the source.
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
    Returns the current records of stores as a table.

    Args:
        session: of PySpark 4.1 or newer; `register` is not needed.
        paths: roots of stores, file URLs or globs.
        options: the batch options of ``format("pystore")``, by the same names.

    Raises:
        InvalidError: an option is unknown or invalid, or there is no path.
        NotAStoreError: a path is no store, or a glob matches no store.
    """
    # PySpark is needed from here on; the package alone must not need it.
    from pystore.spark.source.load import load as load_table  # noqa: PLC0415

    return load_table(session, *paths, **options)
