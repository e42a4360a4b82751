"""
Writes record batches into Parquet files, one file for each topic and day.

Rows are buffered until they fill a row group. The buffers' memory is bounded: if it is
full, the largest part is written first, so that rare topics still get one file each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pystore.fs.atomic import storage_error, sync_file

__all__ = ["ParquetParts", "PartFile", "PartitionKey", "WriterLimits"]

_PLAIN = frozenset(
    {"offset", "queueOffset", "bodyCRC", "msgId", "uniqKey", "keys", "body"}
)
"""Columns whose values hardly repeat: a dictionary would not make them smaller."""

_NO_DAY = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """
    The values of a record that select its directory.

    Attributes:
        topic: name of the topic.
        day: of the store time, ``yyyy-mm-dd`` in UTC; ``None``: the time is unknown.
    """

    topic: str | None
    day: str | None


@dataclass(frozen=True, slots=True)
class PartFile:
    """
    A file that is complete and synced.

    Attributes:
        name: within its folder.
        part: topic and day of its records.
        rows: number of records.
        size: in bytes.
        min_offset: of the first record.
        max_offset: of the last record.
    """

    name: str
    part: PartitionKey
    rows: int
    size: int
    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True)
class WriterLimits:
    """
    The limits of a writer.

    Attributes:
        group_bytes: size of one row group before encoding.
        memory_bytes: size of all buffered rows.
        open_files: number of open files.
    """

    group_bytes: int = 64 << 20
    memory_bytes: int = 192 << 20
    open_files: int = 64


@dataclass(slots=True)
class _Buffer:
    batches: list[pa.RecordBatch] = field(default_factory=list)
    size: int = 0


@dataclass(slots=True)
class _Open:
    name: str
    writer: Any
    sink: Any
    rows: int = 0
    min_offset: int = 0
    max_offset: int = 0


class ParquetParts:
    """
    The files of one task. A context manager; one thread.

    Args:
        folder: of the files; no other task writes there.
        stem: prefix of the files' names.
        columns: of the files, among those of the batches.
        compression: as pyarrow names it.
        limits: of memory.

    Raises:
        StorageError: from ``add`` and ``finish``: the system refused.
    """

    def __init__(
        self,
        folder: Path,
        stem: str,
        columns: Sequence[str],
        compression: str,
        limits: WriterLimits | None = None,
    ) -> None:
        self._folder = folder
        self._stem = stem
        self._columns = list(columns)
        self._compression = compression
        self._limits = limits or WriterLimits()
        self._buffers: dict[PartitionKey, _Buffer] = {}
        self._open: dict[PartitionKey, _Open] = {}
        self._done: list[PartFile] = []
        self._size = 0
        self._names = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """
        Adds rows with the columns ``topic``, ``storeTimestamp`` and ``offset``.
        """
        for part, rows in _by_part(batch):
            # The offsets are kept for the commit file.
            buffer = self._buffers.setdefault(part, _Buffer())
            buffer.batches.append(rows)
            buffer.size += rows.nbytes
            self._size += rows.nbytes
            if buffer.size >= self._limits.group_bytes:
                self._flush(part)
        while self._size > self._limits.memory_bytes:
            self._flush(max(self._buffers, key=lambda part: self._buffers[part].size))

    def finish(self) -> list[PartFile]:
        """
        Writes the buffered rows, and returns the files, all of them synced.
        """
        for part in list(self._buffers):
            self._flush(part)
            self._close(part)
        for part in list(self._open):
            self._close(part)
        return self._done

    def _flush(self, part: PartitionKey) -> None:
        """
        Writes a row group.
        """
        buffer = self._buffers.pop(part)
        self._size -= buffer.size
        table = pa.Table.from_batches(buffer.batches)
        try:
            file = self._open.get(part) or self._begin(part, table)
            offsets = table.column("offset")
            file.min_offset = file.min_offset if file.rows else offsets[0].as_py()
            file.max_offset = offsets[-1].as_py()
            file.rows += table.num_rows
            file.writer.write_table(
                table.select(self._columns), row_group_size=max(1, table.num_rows)
            )
        except OSError as error:
            # The caller gets the path with it.
            raise storage_error("write", self._folder, error) from error

    def _begin(self, part: PartitionKey, table: pa.Table) -> _Open:
        while len(self._open) >= self._limits.open_files:
            self._close(next(iter(self._open)))
        name = f"{self._stem}-{self._names:05d}"
        self._names += 1
        sink = pa.OSFile(str(self._folder / name), "wb")
        schema = table.select(self._columns).schema
        writer = pq.ParquetWriter(
            sink,
            schema,
            compression=self._compression,
            use_dictionary=_repeating(schema),
            write_page_index=True,
        )
        file = self._open[part] = _Open(name, writer, sink)
        return file

    def _close(self, part: PartitionKey) -> None:
        file = self._open.pop(part)
        path = self._folder / file.name
        try:
            file.writer.close()
            file.sink.close()
            sync_file(path)
            size = path.stat().st_size
        except OSError as error:
            # The caller gets the path with it.
            raise storage_error("write", path, error) from error
        self._done.append(
            PartFile(file.name, part, file.rows, size, file.min_offset, file.max_offset)
        )


def _repeating(schema: pa.Schema) -> Any:  # noqa: ANN401  the stub allows only a flag
    """
    The columns that get a dictionary, as Parquet names their leaves.
    """
    leaves = []
    for column in schema:
        if column.name in _PLAIN:
            continue
        if pa.types.is_map(column.type):
            leaves += [f"{column.name}.key_value.{one}" for one in ("key", "value")]
        else:
            leaves.append(column.name)
    return leaves


def _by_part(batch: pa.RecordBatch) -> Iterator[tuple[PartitionKey, pa.RecordBatch]]:
    """
    The rows of each topic and day, in their order.
    """
    if not batch.num_rows:
        return
    topics = batch.column("topic").dictionary_encode(null_encoding="encode")
    times = batch.column("storeTimestamp").cast(pa.date32()).cast(pa.int32())
    codes = topics.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    days = times.cast(pa.int64()).fill_null(_NO_DAY).to_numpy(zero_copy_only=False)
    known, days_at = np.unique(days, return_inverse=True)
    keys = codes * len(known) + days_at
    present, places, counts = np.unique(keys, return_inverse=True, return_counts=True)
    order = np.argsort(places, kind="stable")
    ends = np.cumsum(counts)
    for key, end, count in zip(
        present.tolist(), ends.tolist(), counts.tolist(), strict=True
    ):
        day = int(known[key % len(known)])
        part = PartitionKey(
            topics.dictionary[key // len(known)].as_py(),
            None if day == _NO_DAY else str(np.datetime64(day, "D")),
        )
        if len(present) == 1:
            yield part, batch
            return
        yield part, batch.take(pa.array(order[end - count : end]))
