"""
The space that a run of an export will take.

It depends on the data, the columns and the compression. So a sample of the log is
written first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from pystore.fs.free_space import require_free
from pystore.spark.export.task import ExportTask, write_task
from pystore.spark.plan.split import Split

__all__ = ["require_space"]

_SAMPLE_BYTES = 16 << 20


def require_space(into: Path, tasks: Sequence[ExportTask]) -> None:
    """
    Makes sure that the disk has space for the files of a run.

    Args:
        into: the exported directory.
        tasks: of the run.

    Raises:
        FullError: there is less.
        CorruptError: the sample is damaged, and ``on_damage`` is ``fail``.
        StorageError: the sample cannot be read, or written.
    """
    splits = [(split, task) for task in tasks for split in task.splits]
    read = sum(_size(split) for split, _ in splits)
    needed = read
    if read > _SAMPLE_BYTES:
        split, task = max(splits, key=lambda one: _size(one[0]))
        needed = round(read * _bytes_per_byte(split, task))
    advice = "make space, or give a directory on another disk"
    require_free(into, needed, "the export", advice)


def _size(split: Split) -> int:
    return split.to_offset - split.from_offset


def _bytes_per_byte(split: Split, task: ExportTask) -> float:
    """
    Bytes of files for a byte of the log: of the first records of a split, written as
    the task would, into its folder. The driver removes the folder.
    """
    stop = min(split.to_offset, split.from_offset + _SAMPLE_BYTES)
    sample = replace(task, splits=(replace(split, to_offset=stop),))
    written = write_task(sample)
    size = sum(_data_bytes(Path(written.folder, file.name)) for file in written.files)
    return size / (stop - split.from_offset)


def _data_bytes(path: Path) -> int:
    """
    The bytes of a file's columns: its head and foot do not grow with the rows.
    """
    found = pq.read_metadata(path)
    return sum(
        found.row_group(group).column(column).total_compressed_size
        for group in range(found.num_row_groups)
        for column in range(found.num_columns)
    )
