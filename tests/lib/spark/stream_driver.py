"""
Calls a stream reader as Spark's driver and its workers do, without a session.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from pystore.spark.plan.options import parse_options
from pystore.spark.plan.schema import choose_columns
from pystore.spark.source.stream import PystoreStreamReader

__all__ = ["Driver"]


class Driver:
    """
    Calls a reader as Spark does: offsets travel as JSON, the rest as pickles.

    Attributes:
        damages: offset and size of each damaged range, with ``onDamage=report``.
    """

    def __init__(
        self, path: Path | str, *, column: str = "offset", **options: Any
    ) -> None:
        self._column = column
        given = {name: str(value) for name, value in options.items()}
        self._options = parse_options({"path": str(path), **given}, is_stream=True)
        self.start: dict[str, Any] | None = None
        self.damages: list[tuple[int, int]] = []
        self.reader = self.restart()

    def restart(self) -> PystoreStreamReader:
        """
        Starts a new driver with Spark's checkpoint.
        """
        reports = self._options.on_damage == "report"
        columns = choose_columns(
            [self._column, *["size", "damage"] * reports],
            with_body=False,
            with_damage=reports,
        )
        self.reader = PystoreStreamReader(self._options, columns)
        return self.reader

    def begin(self) -> None:
        """
        Gets the initial offset, if it is not known.
        """
        if self.start is None:
            self.start = json.loads(json.dumps(self.reader.initialOffset()))

    def batch(self, limit: ReadLimit | None = None) -> list[int]:
        """
        Offsets of the records of the next batch.
        """
        self.begin()
        limit = limit or self.reader.getDefaultReadLimit()
        assert self.start is not None
        end = self.reader.latestOffset(self.start, limit)
        found = self.between(end)
        self.start = json.loads(json.dumps(end))
        return found

    def between(self, end: dict[str, Any]) -> list[int]:
        """
        Offsets of the records up to *end*.
        """
        assert self.start is not None
        planned = self.reader.partitions(self.start, json.loads(json.dumps(end)))
        return [offset for part in planned for offset in self.read(part)]

    def read(self, partition: InputPartition) -> list[int]:
        """
        The records that a worker reads, with its own reader.
        """
        worker = PystoreStreamReader(self._options, self.reader._columns)
        worker, partition = pickle.loads(pickle.dumps((worker, partition)))
        found = []
        for batch in worker.read(partition):
            for row in batch.to_pylist():
                if row.get("damage"):
                    self.damages.append((row["offset"], row["size"]))
                else:
                    found.append(row[self._column])
        return found
