"""
Commit logs in Spark: ``spark.read.format("pystore").load(path)``.

``register(session)`` makes the format known, and lets filters reach it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(session: SparkSession) -> None:
    """
    Make ``format("pystore")`` known to a session, and switch on that filters are
    pushed down to Python sources.

    Without the switch, register ``PystoreSource`` itself: it works, and reads more.

    Args:
        session: of PySpark 4.1 or newer.
    """
    # PySpark is needed from here on; the package alone must not need it.
    from pystore.spark.source import FilteringSource  # noqa: PLC0415

    session.conf.set(_PUSHDOWN, "true")
    session.dataSource.register(FilteringSource)
