"""
Commit logs in Spark: ``spark.read.format("pystore").load(path)``.

``register(session)`` adds the format to a session. ``load(session, path)`` returns the
same table, and is faster for reading whole logs: Spark copies each row once less.
``map_batches(session, path, function, schema)`` runs a function on the record batches
where they are read, and is faster still.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pystore.spark.source.load import BatchFunction

__all__ = ["load", "map_batches", "register"]


def register(session: SparkSession) -> None:
    """
    Adds ``format("pystore")`` to a session.

    Filters are not pushed down: Spark (4.3 at least) keeps pushed filters with the
    loaded table, so another branch of the same query would read only the records that
    the first branch needs. The options ``topics``, ``queueIds``, ``fromTime``,
    ``toTime``, ``fromOffset`` and ``toOffset`` leave out as much.

    Args:
        session: of PySpark 4.1 or newer.
    """
    # PySpark is needed from here on; the package alone must not need it.
    from pystore.spark.source.source import PystoreSource  # noqa: PLC0415

    session.dataSource.register(PystoreSource)


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


def map_batches(
    session: SparkSession,
    paths: str | Path | Sequence[str | Path],
    function: BatchFunction,
    schema: str | StructType,
    **options: object,
) -> DataFrame:
    """
    Returns the result of a function on the record batches of stores, as a table.

    The function runs in the tasks that read the records, so only its result becomes
    rows of Spark. It must be picklable, as for ``DataFrame.mapInArrow``.

    Args:
        session: of PySpark 4.1 or newer; `register` is not needed.
        paths: roots of stores, file URLs or globs: one or several.
        function: called once in each task with an iterator over its record batches;
            returns an iterator over record batches of *schema*.
        schema: of the result, as DDL or as a type.
        options: the batch options of ``format("pystore")``, by the same names.

    Raises:
        InvalidError: an option is unknown or invalid, or there is no path.
        NotAStoreError: a path is no store, or a glob matches no store.
    """
    # PySpark is needed from here on; the package alone must not need it.
    from pystore.spark.source.load import map_batches as map_them  # noqa: PLC0415

    return map_them(session, paths, function, schema, **options)
