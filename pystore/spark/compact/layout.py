"""
The layout of the output: the place of each latest record, queue by queue.

The rows of a queue come in this order: first the counts of each segment, then the
latest records in the order of the log. The counts prove that this is also the order
of the queue.

A tombstone is removed. But the newest record of a queue always stays, so that the queue
keeps its end: RocketMQ sends a consumer whose offset is above the end of the queue back
to the beginning.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pystore.fs.layout import segment_path
from pystore.spark.compact.counts import (
    CompactionDamage,
    QueueCount,
    out_of_order,
    parse_note,
    queue_hash,
)
from pystore.spark.compact.plan import CompactionPlan
from pystore.spark.compact.scan import NOTE, RECORD
from pystore.spark.compact.sizes import ENTRY_BYTES, Packer
from pystore.spark.plan.arrow_schema import arrow_schema

__all__ = ["PLACES", "PLACES_SCHEMA", "QueueLayout", "lay_out", "parse_layout"]

PLACES = (
    "kind int, segment int, queue bigint, offset bigint, size int, place bigint, "
    "file bigint, entry int, text string"
)
"""
The rows of a layout.

The row of a record holds the number of its segment, the hash of its queue, its offset
and size, its offset in the log of the queue, the base of the file there, and the number
of its entry. The row of a queue, or of damage, holds a text.
"""

PLACES_SCHEMA = arrow_schema(PLACES)


@dataclass(frozen=True, slots=True)
class QueueLayout:
    """
    The result of a compaction for one queue.

    Attributes:
        count: of the queue's records before the compaction.
        keys: number of different keys.
        records: number of records that stay.
        size_bytes: of these records.
        tombstones: number of tombstones among them.
        files: ``(base, end of the records, entries)`` of each file.
    """

    count: QueueCount
    keys: int
    records: int
    size_bytes: int
    tombstones: int
    files: tuple[tuple[int, int, int], ...]

    @property
    def hash(self) -> int:
        """
        The hash of the queue in the rows.
        """
        return queue_hash(self.count.topic, self.count.queue_id)

    @property
    def folder(self) -> str:
        """
        The queue's path below the topics' directory.
        """
        return f"{self.count.topic}/{self.count.queue_id}"

    @property
    def output_bytes(self) -> int:
        """
        Space that the queue's files take, approximately.
        """
        return self.size_bytes + self.records * ENTRY_BYTES + len(self.files) * 16384

    def text(self) -> str:
        """
        Returns it as JSON.
        """
        return json.dumps(asdict(self))


def parse_layout(text: str) -> QueueLayout | CompactionDamage:
    """
    Parses the text of a row.
    """
    found: dict[str, Any] = json.loads(text)
    if "damage" in found:
        return CompactionDamage(**found["damage"])
    files = tuple((base, end, entries) for base, end, entries in found.pop("files"))
    return QueueLayout(count=QueueCount(**found.pop("count")), files=files, **found)


def lay_out(
    batches: Iterable[pa.RecordBatch], plan: CompactionPlan, *, with_records: bool
) -> Iterator[pa.RecordBatch]:
    """
    Yields the places of records, and one row for each queue.

    Args:
        batches: rows of scans, the latest of each key, by queue, kind and offset.
        plan: of the compaction.
        with_records: whether to yield the rows of records; else only those of queues
            and of damage.

    Raises:
        InvalidError: a record is larger than a file.
    """
    layout = _Layout(plan)
    for batch in batches:
        columns = {
            name: batch.column(name).to_numpy(zero_copy_only=False)
            for name in ("queue", "kind", "offset", "value")
        }
        edges = np.flatnonzero(
            np.diff(columns["queue"], prepend=0) | np.diff(columns["kind"], prepend=-1)
        )
        ends = np.append(edges[1:], batch.num_rows)
        for start, end in zip(edges.tolist(), ends.tolist(), strict=True):
            here = slice(start, end)
            queue, kind = int(columns["queue"][start]), int(columns["kind"][start])
            if queue != layout.queue or not layout.is_open:
                yield from layout.next_queue(queue, with_records=with_records)
            if kind == NOTE:
                layout.note(
                    [parse_note(raw.as_py()) for raw in batch.column("key")[here]]
                )
                continue
            places = layout.records(columns["offset"][here], columns["value"][here])
            if with_records and places is not None:
                yield places
    yield from layout.next_queue(0, with_records=with_records)


class _Layout:
    """
    The layout of the current queue.
    """

    def __init__(self, plan: CompactionPlan) -> None:
        self._plan = plan
        self.queue = 0
        self.is_open = False
        self._open(0)

    def _open(self, queue: int) -> None:
        self.queue = queue
        self._packer = Packer(self._plan.choice.sizes)
        self._count: QueueCount | None = None
        self._damages: list[CompactionDamage] = []
        self._keys = self._records = self._bytes = self._tombstones = 0
        # The last record so far: a later row may follow.
        self._last: tuple[int, int] | None = None

    def next_queue(self, queue: int, *, with_records: bool) -> Iterator[pa.RecordBatch]:
        """
        Yields the last rows of the queue, and begins the next queue.
        """
        if self.is_open:
            places = self._place_last()
            if with_records and places is not None:
                yield places
            texts = [one.pack().decode() for one in self._damages]
            if self._count is not None and not texts:
                texts = [self._whole(self._count).text()]
            if texts:
                yield _texts(texts)
        self._open(queue)
        self.is_open = True

    def note(self, notes: list[QueueCount | CompactionDamage]) -> None:
        """
        Adds the counts of segments, in the order of the log.
        """
        for one in notes:
            if isinstance(one, CompactionDamage):
                self._damages.append(one)
            elif self._count is None:
                self._count = one
            elif one.name != self._count.name:
                text = f"{one.name} and {self._count.name} have the same hash"
                self._damages.append(
                    CompactionDamage(self._plan.store, one.first_offset, text)
                )
            elif one.is_behind(self._count):
                self._count = self._count.plus(one)
            else:
                self._damages.append(self._disorder(one, self._count))

    def records(
        self, offsets: NDArray[np.int64], values: NDArray[np.int64]
    ) -> pa.RecordBatch | None:
        """
        Returns the places of records, without the last one.
        """
        self._keys += len(offsets)
        if self._last is not None:
            offsets = np.append(self._last[0], offsets)
            values = np.append(self._last[1], values)
        self._last = int(offsets[-1]), int(values[-1])
        offsets, values = offsets[:-1], values[:-1]
        if not self._plan.choice.keep_tombstones:
            is_kept = (values & 1) == 0
            offsets, values = offsets[is_kept], values[is_kept]
        return self._place(offsets, values)

    def _place_last(self) -> pa.RecordBatch | None:
        if self._last is None:
            return None
        offset, value = self._last
        return self._place(np.array([offset]), np.array([value]))

    def _place(
        self, offsets: NDArray[np.int64], values: NDArray[np.int64]
    ) -> pa.RecordBatch | None:
        if not len(offsets):
            return None
        sizes = values >> 1
        places, entries = self._packer.place(sizes)
        self._records += len(offsets)
        self._bytes += int(sizes.sum())
        self._tombstones += int((values & 1).sum())
        count, log_bytes = len(offsets), self._plan.choice.sizes.log_bytes
        segments = np.searchsorted(np.array(self._plan.bases), offsets, "right") - 1
        columns = [
            pa.array(np.full(count, RECORD, np.int32)),
            pa.array(segments.astype(np.int32)),
            pa.array(np.full(count, self.queue, np.int64)),
            pa.array(offsets),
            pa.array(sizes.astype(np.int32)),
            pa.array(places),
            pa.array(places // log_bytes * log_bytes),
            pa.array(entries),
            pa.nulls(count, pa.string()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=PLACES_SCHEMA)

    def _whole(self, count: QueueCount) -> QueueLayout:
        return QueueLayout(
            count=count,
            keys=self._keys,
            records=self._records,
            size_bytes=self._bytes,
            tombstones=self._tombstones,
            files=tuple(self._packer.close()),
        )

    def _disorder(self, found: QueueCount, before: QueueCount) -> CompactionDamage:
        bases, offset = self._plan.bases, found.first_offset
        base = bases[bisect_right(bases, offset) - 1]
        path = str(segment_path(self._plan.store, base))
        text = out_of_order(
            found.topic,
            found.queue_id,
            found.first_queue_offset,
            before.last_queue_offset,
        )
        return CompactionDamage(path, offset, f"record at offset {offset}: {text}")


def _texts(texts: list[str]) -> pa.RecordBatch:
    columns: dict[str, list[Any]] = {
        name: [None] * len(texts) for name in PLACES_SCHEMA.names
    }
    columns |= {"kind": [NOTE] * len(texts), "text": texts}
    return pa.RecordBatch.from_pydict(columns, schema=PLACES_SCHEMA)
