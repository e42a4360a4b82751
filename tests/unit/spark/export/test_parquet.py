"""
Record batches to Parquet files, one for each topic and day.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pystore.errors import StorageError
from pystore.spark.export.parquet import ParquetParts, PartitionKey, WriterLimits

DAY_MS = 86_400_000


def batch(*rows: tuple[int, str, int | None]) -> pa.RecordBatch:
    """
    A batch of offset, topic, store time in ms.
    """
    offsets, topics, times = zip(*rows, strict=True)
    micros = [None if ms is None else ms * 1000 for ms in times]
    return pa.record_batch(
        {
            "offset": pa.array(offsets, pa.int64()),
            "topic": pa.array(topics, pa.string()),
            "storeTimestamp": pa.array(micros, pa.timestamp("us", "UTC")),
            "body": pa.array([b"x" * 100] * len(rows), pa.binary()),
        }
    )


def parts(folder: Path, **limits: int) -> ParquetParts:
    """
    A writer of two columns.
    """
    return ParquetParts(
        folder, "part", ["offset", "body"], "zstd", WriterLimits(**limits)
    )


def offsets(folder: Path, name: str) -> list[Any]:
    """
    The offsets of the rows of a file.
    """
    found: list[Any] = pq.read_table(folder / name).column("offset").to_pylist()
    return found


def test_each_topic_and_day_is_a_file_in_the_order_of_the_log(tmp_path: Path) -> None:
    """
    Days are in UTC; a time may be before 1970 or unknown.
    """
    writer = parts(tmp_path)
    writer.add(
        batch(
            (1, "b", 0),
            (2, "a", DAY_MS - 1),
            (3, "a", DAY_MS),
            (4, "b", 1),
            (5, "b", -1),
        )
    )
    writer.add(batch((6, "a", 5), (7, "b", None)))
    writer.add(batch((8, "a", 6)).slice(1))

    files = {file.part: file for file in writer.finish()}

    assert {
        PartitionKey("b", "1970-01-01"): [1, 4],
        PartitionKey("a", "1970-01-01"): [2, 6],
        PartitionKey("a", "1970-01-02"): [3],
        PartitionKey("b", "1969-12-31"): [5],
        PartitionKey("b", None): [7],
    } == {part: offsets(tmp_path, file.name) for part, file in files.items()}
    one = files[PartitionKey("a", "1970-01-01")]
    assert (2, 2, 6) == (one.rows, one.min_offset, one.max_offset)
    assert one.size == (tmp_path / one.name).stat().st_size
    assert ["offset", "body"] == pq.read_schema(tmp_path / one.name).names


def test_buffered_rows_are_bounded_and_a_part_stays_one_file(tmp_path: Path) -> None:
    """
    A large part is written in row groups, a rare one at the end.
    """
    writer = parts(tmp_path, group_bytes=10_000, memory_bytes=15_000)
    for number in range(0, 1000, 10):
        writer.add(batch(*((number + at, "large", 0) for at in range(9))))
        writer.add(batch((number + 9, f"rare{number % 20}", 0)))

    files = writer.finish()

    assert 3 == len(files)
    large = next(file for file in files if file.part.topic == "large")
    assert 900 == large.rows
    assert pq.read_metadata(tmp_path / large.name).num_row_groups > 5
    assert sorted(range(1000)) == sorted(
        offset for file in files for offset in offsets(tmp_path, file.name)
    )


def test_the_number_of_open_files_is_bounded(tmp_path: Path) -> None:
    """
    A part may then get a second file, but no record is lost.
    """
    writer = parts(tmp_path, group_bytes=1, open_files=2)
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    for number in range(20):
        writer.add(batch((number, f"T{number % 5}", 0)))
        if before:
            assert len(os.listdir("/proc/self/fd")) <= before + 2

    files = writer.finish()

    assert len({file.name for file in files}) == len(files) == 20
    assert list(range(20)) == sorted(
        offset for file in files for offset in offsets(tmp_path, file.name)
    )


def test_an_error_of_the_system_is_one_line_with_the_path(tmp_path: Path) -> None:
    """
    It is a StorageError.
    """
    writer = parts(tmp_path / "gone")
    writer.add(batch((1, "a", 0)))

    with pytest.raises(StorageError, match=f"cannot write {tmp_path}/gone"):
        writer.finish()
