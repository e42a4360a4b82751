"""
Exports for tests: a store that grows, a run without Spark, a plain Parquet reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as ds

from pystore.message.message import Message
from pystore.spark.export.commit import Commit
from pystore.spark.export.run import ExportRequest, run_export
from pystore.spark.export.task import ExportTask, TaskResult, write_task
from pystore.store.commit_log import CommitLog

__all__ = ["Growing", "export_here", "run_here", "visible"]

SEGMENT = 16384


@dataclass
class Growing:
    """
    A store that grows on request.

    Attributes:
        root: of the store.
        records: topic, offset and body of each record in the log.
        written: number of all records so far, also of those that were cut.
    """

    root: Path
    records: list[tuple[str, int, bytes]]
    written: int = 0

    @classmethod
    def new(cls, root: Path, count: int = 0) -> Growing:
        """
        Makes a store of some records.
        """
        store = cls(root, [])
        store.grow(count)
        return store

    def grow(self, count: int) -> None:
        """
        Appends records of three topics, and leaves the store.
        """
        with CommitLog(self.root, segment_size=SEGMENT) as log:
            for number in range(self.written, self.written + count):
                topic, body = f"T{number % 3}", b"%d " % number * (number % 50)
                done = log.append(Message(topic, body, keys=str(number)))
                self.records.append((topic, done.offset, body))
        self.written += count

    def cut(self, offset: int) -> None:
        """
        Cuts the log.
        """
        with CommitLog(self.root) as log:
            log.cut(offset)
        self.records = [one for one in self.records if one[1] < offset]

    def delete(self, offset: int) -> None:
        """
        Deletes whole segments below an offset, as retention does.
        """
        with CommitLog(self.root) as log:
            log.delete_before(offset)

    @property
    def keyed(self) -> list[tuple[int, str]]:
        """
        Offset and key of all records; a key is given once.
        """
        with CommitLog(self.root, mode="r") as log:
            return [
                (offset, str(log.read(offset).message().keys))
                for offset in self.offsets
            ]

    @property
    def sizes(self) -> dict[int, int]:
        """
        The size of each record in the log, by its offset.
        """
        with CommitLog(self.root, mode="r") as log:
            rows = np.concatenate(list(log.scan()))
        return dict(zip(rows["offset"].tolist(), rows["size"].tolist(), strict=True))

    @property
    def offsets(self) -> list[int]:
        """
        The offsets of all records.
        """
        return [offset for _, offset, _ in self.records]


def run_here(tasks: Sequence[ExportTask]) -> list[TaskResult]:
    """
    Runs the tasks of an export one after another.
    """
    return [write_task(task) for task in tasks]


def export_here(store: Path | str, into: Path, **chosen: Any) -> Commit | None:
    """
    One run, without Spark.
    """
    return run_export(ExportRequest((str(store),), into, **chosen), run_here, 2)


def visible(into: Path, *columns: str) -> list[dict[str, Any]]:
    """
    The rows that a plain Parquet reader returns, in the order of the log.
    """
    if not any(into.glob("run=*/*/*/*.parquet")):
        return []
    table = ds.dataset(into, format="parquet", partitioning="hive").to_table(
        columns=list(columns) or None
    )
    rows: list[dict[str, Any]] = table.to_pylist(maps_as_pydicts="strict")
    return sorted(rows, key=lambda row: (row.get("store", ""), row["offset"]))
