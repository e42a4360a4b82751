"""
The limit of a table in Spark: a ``mapInArrow`` job whose Python only yields Arrow
batches that were made before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

__all__ = ["Give", "repeat_first", "write_splits", "yield_files"]

Give = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What ``mapInArrow`` takes: it is given the numbers of the splits, a row each."""


def write_splits(
    folder: Path, splits: Sequence[Iterable[pa.RecordBatch]]
) -> list[Path]:
    """
    Writes the batches of each split into an Arrow IPC file, named by its number.

    The files are in the page cache afterwards.
    """
    paths = []
    for number, batches in enumerate(splits):
        path = folder / f"{number}.arrow"
        every = iter(batches)
        first = next(every)
        with pa.ipc.new_file(path, first.schema) as writer:
            writer.write_batch(first)
            for batch in every:
                writer.write_batch(batch)
        paths.append(path)
    return paths


def yield_files(folder: Path) -> Give:
    """
    Returns a function that yields the files of its splits from a mapping, uncopied.
    """
    names = str(folder)

    def give(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                path = f"{names}/{number}.arrow"
                with pa.memory_map(path) as mapped, pa.ipc.open_file(mapped) as file:
                    for index in range(file.num_record_batches):
                        yield file.get_batch(index)

    return give


def repeat_first(path: Path, times: int) -> Give:
    """
    Returns a function that yields the first batch of a file *times* times. Its bytes
    stay in the processor's cache, where the bytes of a log never are.
    """
    name = str(path)

    def give(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with pa.ipc.open_file(name) as file:
            same = file.get_batch(0)
        for _number in range(times):
            yield same

    return give
