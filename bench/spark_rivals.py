"""
The obvious jobs: simple programs that check a log on Spark.

Both walk the records and compare the CRC-32 of each body with the stored one. They
check nothing else: no embedded offset, no property CRC, no queue, no other replica.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["binary_file_job", "parallelize_job"]

_HEAD = struct.Struct(">iIi")
_LENGTH = struct.Struct(">i")
_BODY_AT = 88
"""Start of the body in a record with IPv4 hosts; the 4 bytes before are its length."""


def _count(data: Any) -> int:
    """
    The number of whole records, from the first one on.
    """
    at, end, records = 0, len(data), 0
    while at + _BODY_AT < end:
        size, magic, crc = _HEAD.unpack_from(data, at)
        if size == 0 or magic == 0xCBD43194:
            break
        (length,) = _LENGTH.unpack_from(data, at + _BODY_AT - 4)
        body = data[at + _BODY_AT : at + _BODY_AT + length]
        if zlib.crc32(body) & 0x7FFFFFFF != crc:
            raise ValueError(f"body at {at}")
        records += 1
        at += size
    return records


def _count_file(path: str) -> int:
    with (
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped,
        memoryview(mapped) as view,
    ):
        return _count(view)


def parallelize_job(session: SparkSession, paths: list[Path]) -> int:
    """
    ``parallelize(paths)`` with mmap, struct and zlib; returns the records.
    """
    names = [str(path) for path in paths]
    tasks = session.sparkContext.parallelize(names, len(names))
    return int(tasks.map(_count_file).sum())


def binary_file_job(session: SparkSession, folder: Path) -> int:
    """
    ``binaryFile`` with ``mapInPandas``; returns the records.
    """

    def count(batches: Iterable[Any]) -> Iterator[Any]:
        import pandas as pd  # noqa: PLC0415  on the workers

        for batch in batches:
            yield pd.DataFrame({"records": [_count(one) for one in batch["content"]]})

    files = session.read.format("binaryFile").load(str(folder)).select("content")
    rows = files.mapInPandas(count, "records long").groupBy().sum().collect()
    return int(rows[0][0])
