"""
One task: writes splits of a store as Parquet files. Runs on an executor.

Each attempt of a task, also a retry or a speculative one, writes into a new folder and
returns the names of its files. The driver publishes the files of one attempt only. So
retries and the files of killed attempts do no harm.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from pystore.fs.atomic import storage_error, sync_directory
from pystore.spark.export.commit import DamagedRange, ExportShape
from pystore.spark.export.parquet import ParquetParts, PartFile
from pystore.spark.plan.schema import DAMAGE, choose_columns
from pystore.spark.plan.selection import Selection
from pystore.spark.plan.split import Split
from pystore.spark.scan.task import read_split

__all__ = ["ExportTask", "TaskResult", "pack_tasks", "write_task"]

_NEEDED = ("topic", "storeTimestamp", "offset")
"""Columns that a task always reads, exported or not."""

_ROWS_PER_BATCH = 65536
_TASK_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class ExportTask:
    """
    A task as plain values, which travel to a worker.

    Attributes:
        splits: of one store, ascending.
        shape: of the export.
        on_damage: ``fail``, ``report`` or ``skip``.
        folder: parent of the attempts' folders, the same path on every host.
        stem: prefix of the files' names, unique in the run.
    """

    splits: tuple[Split, ...]
    shape: ExportShape
    on_damage: str
    folder: str
    stem: str


@dataclass(frozen=True, slots=True)
class TaskResult:
    """
    The result of an attempt.

    Attributes:
        store: root of the store.
        folder: of this attempt.
        files: that the attempt wrote there.
        damages: that the attempt skipped.
    """

    store: str
    folder: str
    files: tuple[PartFile, ...]
    damages: tuple[DamagedRange, ...]


def pack_tasks(
    splits: Sequence[Split],
    shape: ExportShape,
    on_damage: str,
    folder: Path,
    parallelism: int,
) -> list[ExportTask]:
    """
    Packs neighbouring splits into tasks.

    There are enough tasks to use all processors, but no more: each task writes a file
    for each topic and day.
    """
    total = sum(split.to_offset - split.from_offset for split in splits)
    target = min(_TASK_BYTES, -(-total // max(1, parallelism)))
    packed: list[list[Split]] = []
    size = 0
    for split in splits:
        if not packed or packed[-1][-1].store != split.store or size >= target:
            packed.append([])
            size = 0
        packed[-1].append(split)
        size += split.to_offset - split.from_offset
    return [
        ExportTask(tuple(some), shape, on_damage, str(folder), f"part-{number:06d}")
        for number, some in enumerate(packed)
    ]


def write_task(task: ExportTask) -> TaskResult:
    """
    Writes the records of a task.

    Raises:
        CorruptError: the log is damaged, and ``on_damage`` is ``fail``.
        StorageError: a segment cannot be read, or a file cannot be written.
    """
    attempt = uuid.uuid4().hex
    folder = Path(task.folder) / attempt
    try:
        # The parents are not made: if they are missing, the run is over.
        folder.mkdir()
    except OSError as error:
        # The message explains the path to the user of the driver.
        raise storage_error(
            "write into the directory that --into names, on this host,", folder, error
        ) from error
    parts = ParquetParts(
        folder, f"{task.stem}-{attempt[:8]}", task.shape.columns, task.shape.compression
    )
    damages: list[DamagedRange] = []
    for split in task.splits:
        for batch in _batches(split, task, damages):
            parts.add(batch)
    files = parts.finish()
    sync_directory(folder)
    return TaskResult(
        task.splits[0].store, os.fspath(folder), tuple(files), tuple(damages)
    )


def _batches(
    split: Split, task: ExportTask, damages: list[DamagedRange]
) -> Iterator[pa.RecordBatch]:
    """
    The batches of a split that hold records. Damage is added to *damages*.
    """
    fails = task.on_damage == "fail"
    needed = _NEEDED if fails else (*_NEEDED, "size")
    names = [*task.shape.columns]
    names += [name for name in needed if name not in names]
    selection = Selection()
    if task.shape.topics:
        selection = selection.only_like(task.shape.topics)
    batches = read_split(
        split,
        choose_columns(names, with_body=False, with_damage=not fails),
        selection,
        on_damage="fail" if fails else "report",
        rows_per_batch=_ROWS_PER_BATCH,
    )
    for batch in batches:
        text = None if fails else batch.column(DAMAGE)[0].as_py()
        if text is None:
            yield batch
            continue
        (row,) = batch.select(["offset", "size"]).to_pylist()
        damages.append(DamagedRange(split.store, row["offset"], row["size"], text))
