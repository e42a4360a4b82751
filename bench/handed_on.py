"""
The limit of a table in Spark: a ``mapInArrow`` job whose Python does nothing but hand
on Arrow batches that somebody made before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

__all__ = ["Give", "hand_on", "repeat", "write_splits"]

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


def hand_on(folder: Path) -> Give:
    """
    Returns what hands on the files of its splits, through a mapping: without a copy.
    """
    names = str(folder)

    def give(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for asked in numbers:
            for number in asked.column(0).to_pylist():
                path = f"{names}/{number}.arrow"
                with pa.memory_map(path) as mapped, pa.ipc.open_file(mapped) as file:
                    for index in range(file.num_record_batches):
                        yield file.get_batch(index)

    return give


def repeat(path: Path, times: int) -> Give:
    """
    Returns what hands on the first batch of a file for each split, so many times:
    bytes that are in the processor's cache, which no reader of a log finds there.
    """
    name = str(path)

    def give(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with pa.ipc.open_file(name) as file:
            same = file.get_batch(0)
        for _number in range(times):
            yield same

    return give
