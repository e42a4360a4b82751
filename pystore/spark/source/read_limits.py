"""
How much one batch of a stream may hold: what Spark asks, in every version.

PySpark 4.1 has none of this: there the options alone say it, and Spark itself ends
an ``availableNow`` stream after one batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pystore.spark.plan.options import StreamOptions

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

    class AvailableNow:
        """
        Base of readers that end at what was there when they began.
        """

else:
    try:
        from pyspark.sql.streaming.datasource import (
            SupportsTriggerAvailableNow as AvailableNow,
        )
    except ImportError:  # PySpark 4.1

        class AvailableNow:
            """
            Nobody asks for it.
            """


__all__ = ["AvailableNow", "ReadLimits", "default_limit", "limits_of"]


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """
    What is left of a batch, for the stores that are still to come.

    Attributes:
        stores: how many.
        max_bytes: of the log; ``None``: any number.
        max_records: likewise.
    """

    stores: int
    max_bytes: int | None = None
    max_records: int | None = None

    def share(self) -> tuple[int | None, int | None]:
        """
        The bytes and records of the next store, at least one of each.
        """
        return self._part(self.max_bytes), self._part(self.max_records)

    def _part(self, whole: int | None) -> int | None:
        return None if whole is None else max(1, whole // self.stores)

    def without(self, size: int, records: int) -> ReadLimits:
        """
        What the next store has left: what it did not take is for the others.
        """
        return replace(
            self,
            stores=max(1, self.stores - 1),
            max_bytes=None if self.max_bytes is None else max(0, self.max_bytes - size),
            max_records=None
            if self.max_records is None
            else max(0, self.max_records - records),
        )


def limits_of(
    asked: ReadLimit | None, options: StreamOptions, stores: int
) -> ReadLimits:
    """
    Returns what Spark and the options allow together.

    Args:
        asked: by Spark, ``None`` before 4.2.
        options: the user's.
        stores: how many there are.
    """
    if type(asked).__name__ == "ReadAllAvailable":
        # Whatever the options say: Spark must have all of it in one batch.
        return ReadLimits(stores)
    return ReadLimits(
        stores,
        getattr(asked, "max_bytes", options.max_bytes),
        getattr(asked, "max_rows", options.max_records),
    )


def default_limit(options: StreamOptions) -> ReadLimit:
    """
    Returns the options as Spark has them; where there are two, it is told of one.
    """
    # PySpark 4.1 never asks, and has no such module.
    from pyspark.sql.streaming.datasource import (  # noqa: PLC0415
        ReadAllAvailable,
        ReadMaxBytes,
        ReadMaxRows,
    )

    if options.max_bytes is not None:
        return ReadMaxBytes(options.max_bytes)
    if options.max_records is not None:
        return ReadMaxRows(options.max_records)
    return ReadAllAvailable()
