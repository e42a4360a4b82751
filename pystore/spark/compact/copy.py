"""
Copies the records of one segment to their new places.

The segment is read once, in parts. Within a part, the records of one queue are written
together: a part takes one call of the core, and one write for each queue.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pystore.bindings.row import Check
from pystore.fs.atomic import replace_file, sync_directory
from pystore.fs.layout import segment_name
from pystore.message.record_batch import move_records
from pystore.spark.compact.files import ENTRY_DTYPE, LOGS, QUEUES, OutputFiles
from pystore.spark.compact.plan import CompactionPlan
from pystore.spark.compact.sizes import ENTRY_BYTES
from pystore.spark.plan.arrow_schema import arrow_schema
from pystore.spark.scan.core_segment import CoreSegment

__all__ = ["COPIED", "COPIED_OF", "copy_records", "marker_name"]

COPIED_OF = ("segment", "queue", "offset", "size", "place", "file", "entry")
"""The columns of a layout that a copy reads."""

COPIED = "segment int, records bigint, bytes bigint"
"""The result of a task, one row for each segment."""

_SCHEMA = arrow_schema(COPIED)
_PART_BYTES = 64 << 20
_GAP_BYTES = 1 << 20  # a larger gap between wanted records is not read


def marker_name(base: int) -> str:
    """
    Returns the name of the marker file of a copied segment.
    """
    return f"{segment_name(base)}.json"


def copy_records(
    batches: Iterable[pa.RecordBatch],
    plan: CompactionPlan,
    names: Mapping[int, str],
    work: Path,
) -> Iterator[pa.RecordBatch]:
    """
    Copies records to their places, and yields the counts of each segment.

    Once the records of a segment are on disk, its marker file appears in ``copied/``.

    Args:
        batches: rows of a layout, by segment and offset.
        plan: of the compaction.
        names: the path of each queue, by its hash.
        work: directory of the work.

    Raises:
        CorruptError: a record has changed since the scan.
        OffsetOutOfRange, CutError: the log no longer has a record.
        StorageError: the system refused.
    """
    copy: _Copy | None = None
    try:
        for segment, rows in _by_segment(batches):
            if copy is None or copy.segment != segment:
                if copy is not None:
                    yield copy.finish()
                copy = _Copy(plan, names, work, segment)
            copy.add(rows)
        if copy is not None:
            yield copy.finish()
    finally:
        if copy is not None:
            copy.close()


def _by_segment(
    batches: Iterable[pa.RecordBatch],
) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
    for batch in batches:
        rows = {
            name: batch.column(name).to_numpy(zero_copy_only=False)
            for name in batch.schema.names
        }
        edges = np.flatnonzero(np.diff(rows["segment"], prepend=-1)).tolist()
        for start, end in zip(edges, [*edges[1:], batch.num_rows], strict=True):
            here = {name: column[start:end] for name, column in rows.items()}
            yield int(here["segment"][0]), here


class _Copy:
    """
    The copies of one segment.
    """

    def __init__(
        self, plan: CompactionPlan, names: Mapping[int, str], work: Path, segment: int
    ) -> None:
        self.segment = segment
        self._base = plan.bases[segment]
        self._names = names
        self._work = work
        self._records = self._bytes = 0
        self._segment = CoreSegment(plan.splits()[segment], Check.OFFSET, 1)
        self._files = OutputFiles(work / "compaction")

    def add(self, rows: dict[str, NDArray[Any]]) -> None:
        """
        Copies some records.
        """
        offsets, sizes = rows["offset"], rows["size"].astype(np.int64)
        ends = offsets + sizes
        gaps = np.flatnonzero(offsets[1:] - ends[:-1] > _GAP_BYTES) + 1
        first = 0
        while first < len(offsets):
            last = int(np.searchsorted(ends, offsets[first] + _PART_BYTES, "right"))
            gap = int(np.searchsorted(gaps, first, "right"))
            if gap < len(gaps):
                last = min(last, int(gaps[gap]))
            last = max(last, first + 1)
            self._copy({name: column[first:last] for name, column in rows.items()})
            first = last

    def _copy(self, rows: dict[str, NDArray[Any]]) -> None:
        start = int(rows["offset"][0])
        data = self._segment.data(
            start, int(rows["offset"][-1] + rows["size"][-1]) - start
        )
        order = np.lexsort((rows["place"], rows["queue"]))
        rows = {name: column[order] for name, column in rows.items()}
        ends = np.cumsum(rows["size"].astype(np.int64))
        copies, moved = move_records(
            data, start, rows["offset"], rows["place"], int(ends[-1])
        )
        entries = np.zeros(len(order), ENTRY_DTYPE)
        for name in ("offset", "size", "tags_code", "store_ms", "queue_offset"):
            entries[name] = moved[name]
        entries["count"], entries["compacted"] = 1, -1
        edges = np.flatnonzero(
            (np.diff(rows["queue"], prepend=0) != 0)
            | (np.diff(rows["file"], prepend=-1) != 0)
            | (np.diff(rows["entry"], prepend=-2) != 1)
        )
        starts = ends - rows["size"]
        bytes_of, entries_of = copies.data, memoryview(entries.tobytes())
        for here, behind in zip(
            edges.tolist(), [*edges[1:].tolist(), len(order)], strict=True
        ):
            file = int(rows["file"][here])
            name = f"{self._names[int(rows['queue'][here])]}/{segment_name(file)}"
            run = bytes_of[int(starts[here]) : int(ends[behind - 1])]
            at = int(rows["place"][here]) - file
            self._files.write(f"{LOGS}/{name}", at, run)
            run = entries_of[here * ENTRY_BYTES : behind * ENTRY_BYTES]
            at = int(rows["entry"][here]) * ENTRY_BYTES
            self._files.write(f"{QUEUES}/{name}", at, run)
        self._records += len(order)
        self._bytes += len(copies)

    def close(self) -> None:
        """
        Closes all files; may be called again.
        """
        self._segment.__exit__()
        self._files.close()

    def finish(self) -> pa.RecordBatch:
        """
        Makes the copies durable, writes the marker file, and returns the counts.
        """
        self._segment.unchanged()
        self._files.sync()
        self.close()
        found = {"records": self._records, "bytes": self._bytes}
        draft = self._work / "copied" / f"draft-{uuid.uuid4().hex}"
        draft.mkdir()
        marker = self._work / "copied" / marker_name(self._base)
        replace_file(marker, json.dumps(found).encode(), draft)
        draft.rmdir()
        sync_directory(marker.parent)
        row = {name: [value] for name, value in found.items()}
        return pa.RecordBatch.from_pydict(
            {"segment": [self.segment], **row}, schema=_SCHEMA
        )
