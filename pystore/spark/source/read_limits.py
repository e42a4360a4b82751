"""
The limits of one batch of a stream, for every supported version of PySpark.

PySpark 4.1 passes no limits to a source. There only the options limit a batch, and
Spark ends an ``availableNow`` stream after one batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pystore.spark.plan.options import StreamOptions

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

    class AvailableNow:
        """
        Base of readers that end at the data that existed at their start.
        """

else:
    try:
        from pyspark.sql.streaming.datasource import (
            SupportsTriggerAvailableNow as AvailableNow,
        )
    except ImportError:  # PySpark 4.1

        class AvailableNow:
            """
            Stands in for the missing base class.
            """


__all__ = ["AvailableNow", "ReadLimits", "default_limit", "limits_of"]


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """
    The rest of a batch's limits, for the stores that have no share yet.

    Attributes:
        stores: number of these stores.
        max_bytes: bytes of the logs; ``None``: no limit.
        max_records: number of records; ``None``: no limit.
    """

    stores: int
    max_bytes: int | None = None
    max_records: int | None = None

    def share(self) -> tuple[int | None, int | None]:
        """
        Returns the next store's share of bytes and records, at least one of each.
        """
        return self._part(self.max_bytes), self._part(self.max_records)

    def _part(self, whole: int | None) -> int | None:
        return None if whole is None else max(1, whole // self.stores)

    def without(self, size: int, records: int) -> ReadLimits:
        """
        Returns the rest after a store took *size* bytes and *records* records.
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
    requested: ReadLimit | None, options: StreamOptions, stores: int
) -> ReadLimits:
    """
    Returns the limits from Spark and from the options.

    Args:
        requested: the limit that Spark passes; ``None`` before 4.2.
        options: of the user.
        stores: number of stores.
    """
    if type(requested).__name__ == "ReadAllAvailable":
        # Spark needs all data in one batch; the options do not apply.
        return ReadLimits(stores)
    return ReadLimits(
        stores,
        getattr(requested, "max_bytes", options.max_bytes),
        getattr(requested, "max_rows", options.max_records),
    )


def default_limit(options: StreamOptions) -> ReadLimit:
    """
    Returns the options as a limit of Spark. Of two limits only the bytes are passed.
    """
    # PySpark 4.1 has no such module, and does not call this.
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
