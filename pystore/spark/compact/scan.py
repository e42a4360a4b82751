"""
Scans one segment for its latest records: a row for each key of each queue.

Whole keys are compared, never digests, so that no collision can drop a record. A
segment is read in pieces, which bound the memory. A key that comes again in a later
piece has two rows, and Spark keeps one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from pystore.bindings.row import Check
from pystore.message.constants import NO_ENTRY
from pystore.message.properties import KEYS
from pystore.message.record_batch import find_property
from pystore.spark.compact.counts import (
    CompactionDamage,
    QueueCount,
    out_of_order,
    queue_hash,
)
from pystore.spark.plan.arrow_schema import arrow_schema
from pystore.spark.plan.selection import Selection
from pystore.spark.plan.split import Damaged, Split
from pystore.spark.scan.core_segment import CoreSegment
from pystore.spark.scan.gather import gather, texts

__all__ = ["NOTE", "RECORD", "SCANNED", "SCANNED_SCHEMA", "scan_segment"]

# Its functions are made at run time: type checkers do not know them.
pc: Any = pyarrow.compute

NOTE, RECORD = 0, 1
"""Kinds of rows: notes with counts or damage, and records."""

SCANNED = "queue bigint, kind int, key binary, offset bigint, value bigint"
"""
The rows of a scan.

The row of a record holds the hash of its queue, its key, its offset, and twice its
size, plus one for a tombstone. The row of a note holds the note as its key.
"""

SCANNED_SCHEMA = arrow_schema(SCANNED)

_CHECKS = Check.BODY | Check.PROPERTY | Check.OFFSET | Check.TOPIC | Check.ONCE
_ROWS = 32768
_REDUCE_ROWS, _REDUCE_BYTES = 1 << 20, 64 << 20
_BATCH_ROWS = 1 << 16
# The bytes that white space may begin with in UTF-8.
_BLANKS = np.isin(np.arange(256), [*range(9, 14), *range(28, 33), 0xE1, 0xE2, 0xE3])
# White space in Unicode, but not in Java.
_NOT_BLANK = frozenset("\x85\xa0\u2007\u202f")


def scan_segment(split: Split, topics: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """
    Yields the rows of a segment, and checks every checksum.

    At damage the scan ends with a note of its offset.

    Args:
        split: the segment.
        topics: patterns of topics; empty: every topic.

    Raises:
        OffsetOutOfRange: the segment was deleted.
        CutError: the log was cut below the segment's end.
        NotAStoreError, StorageError: the segment cannot be read.
    """
    with CoreSegment(split, _CHECKS, _ROWS) as segment:
        scan = _Scan(segment, topics, split.path)
        for piece in segment.pieces():
            if isinstance(piece, Damaged):
                yield _notes(
                    [CompactionDamage(split.path, piece.offset, piece.text)], split.base
                )
                return
            scan.add(piece)
            yield from scan.reduced(_REDUCE_ROWS)
            if scan.damage is not None:
                yield _notes([scan.damage], split.base)
                return
        yield from scan.reduced(1)
        segment.unchanged()
        if scan.counts:
            yield _notes(list(scan.counts), split.base)


class _Scan:
    """
    The state of a scan.
    """

    def __init__(
        self, segment: CoreSegment, topics: tuple[str, ...], path: str
    ) -> None:
        self._segment = segment
        self._selection = Selection().only_like(topics) if topics else Selection()
        self._path = path
        self._wanted: dict[int, bool] = {}
        self._numbers: dict[int, int] = {}
        self._hashes: list[int] = []
        self._parts: list[tuple[NDArray[Any], pa.Array, NDArray[Any], NDArray[Any]]]
        self._parts = []
        self._rows = self._bytes = 0
        self.counts: list[QueueCount] = []
        self.damage: CompactionDamage | None = None

    def add(self, rows: NDArray[Any]) -> None:
        """
        Adds the rows of a piece.
        """
        rows = rows[self._mask(rows)]
        if not len(rows):
            return
        first, last = rows[0], rows[-1]
        start = int(first["offset"])
        size = int(last["offset"]) + int(last["size"]) - start
        data = self._segment.data(start, size)
        at, sizes = find_property(data, start, rows, KEYS)
        keys = gather(pa.py_buffer(data), at, sizes)
        is_keyed = (sizes > 0) & ~_are_blank(keys, data, at, sizes)
        queues = self._queues(rows)
        self._count(rows, queues, is_keyed)
        chosen = np.flatnonzero(is_keyed)
        kept = rows[chosen]
        values = kept["size"].astype(np.int64) * 2 + (kept["body_size"] == 0)
        keys = keys.take(pa.array(chosen)) if len(chosen) < len(rows) else keys
        offsets = kept["offset"].astype(np.int64)
        self._parts.append((queues[chosen], keys, offsets, values))
        self._rows += len(chosen)
        self._bytes += int(sizes[chosen].sum())

    def reduced(self, rows_min: int) -> Iterator[pa.RecordBatch]:
        """
        Yields the latest record of each key, if there are enough rows.
        """
        if self._rows < rows_min and self._bytes < _REDUCE_BYTES:
            return
        queues, offsets, values = (
            np.concatenate([part[at] for part in self._parts]) for at in (0, 2, 3)
        )
        keys = pa.concat_arrays([part[1] for part in self._parts])
        self._parts, self._rows, self._bytes = [], 0, 0
        coded = keys.dictionary_encode()
        codes = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        pairs = pa.array(queues * len(coded.dictionary) + codes).dictionary_encode()
        # If an element is set more than once, the last value stays.
        last = np.empty(len(pairs.dictionary), np.int64)
        last[pairs.indices.to_numpy(zero_copy_only=False)] = np.arange(len(queues))
        last.sort()
        hashes = np.array(self._hashes, np.int64)
        for first in range(0, len(last), _BATCH_ROWS):
            chosen = last[first : first + _BATCH_ROWS]
            columns = [
                pa.array(hashes[queues[chosen]]),
                pa.array(np.full(len(chosen), RECORD, np.int32)),
                keys.take(pa.array(chosen)),
                pa.array(offsets[chosen]),
                pa.array(values[chosen]),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=SCANNED_SCHEMA)

    def _mask(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        ids = rows["topic_id"]
        for one in np.unique(ids).tolist():
            if one not in self._wanted:
                self._wanted[one] = self._selection.has_topic(self._segment.topic(one))
        wanted = [one for one, is_wanted in self._wanted.items() if is_wanted]
        mask: NDArray[np.bool_] = (rows["sys_flag"] & NO_ENTRY) == 0
        return mask & np.isin(ids, wanted) if len(wanted) < len(self._wanted) else mask

    def _queues(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """
        The number of each row's queue; queues are numbered as they appear.
        """
        ids = rows["topic_id"].astype(np.int64) << 32
        known, places = np.unique(
            ids | (rows["queue_id"].astype(np.int64) & 0xFFFFFFFF), return_inverse=True
        )
        numbers = np.empty(len(known), np.int64)
        for at, one in enumerate(known.tolist()):
            number = self._numbers.get(one)
            if number is None:
                number = self._numbers[one] = len(self._hashes)
                row = rows[np.argmax(places == at)]
                topic = self._segment.topic(int(row["topic_id"]))
                self._hashes.append(queue_hash(topic, int(row["queue_id"])))
                if topic in ("", ".", "..") or "/" in topic or "\0" in topic:
                    self._note_damage(
                        row, f"topic {topic!r} cannot be the name of a directory"
                    )
            numbers[at] = number
        return numbers[places]

    def _count(
        self, rows: NDArray[Any], queues: NDArray[np.int64], is_keyed: NDArray[np.bool_]
    ) -> None:
        order = np.argsort(queues, kind="stable")
        rows, queues, is_keyed = rows[order], queues[order], is_keyed[order]
        starts = np.flatnonzero(np.diff(queues, prepend=-1))
        is_bad = np.diff(rows["queue_offset"], prepend=0) <= 0
        is_bad[starts] = False
        if is_bad.any():
            at = int(np.flatnonzero(is_bad)[0])
            self._note_disorder(rows[at], int(rows["queue_offset"][at - 1]))
            return
        ends = np.append(starts[1:], len(rows))
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            here = slice(start, end)
            self._note(int(queues[start]), rows[here], is_keyed[here])

    def _note(
        self, queue: int, rows: NDArray[Any], is_keyed: NDArray[np.bool_]
    ) -> None:
        first, last = rows[0], rows[-1]
        found = QueueCount(
            topic=self._segment.topic(int(first["topic_id"])),
            queue_id=int(first["queue_id"]),
            records=len(rows),
            size_bytes=int(rows["size"].sum()),
            keyless=int((~is_keyed).sum()),
            tombstones=int((is_keyed & (rows["body_size"] == 0)).sum()),
            first_queue_offset=int(first["queue_offset"]),
            last_queue_offset=int(last["queue_offset"]),
            first_offset=int(first["offset"]),
            last_offset=int(last["offset"]),
        )
        if queue == len(self.counts):
            self.counts.append(found)
        elif found.is_behind(self.counts[queue]):
            self.counts[queue] = self.counts[queue].plus(found)
        else:
            self._note_disorder(first, self.counts[queue].last_queue_offset)

    def _note_disorder(self, row: NDArray[Any], before: int) -> None:
        topic = self._segment.topic(int(row["topic_id"]))
        queue_id, queue_offset = int(row["queue_id"]), int(row["queue_offset"])
        self._note_damage(row, out_of_order(topic, queue_id, queue_offset, before))

    def _note_damage(self, row: NDArray[Any], text: str) -> None:
        if self.damage is None:
            offset = int(row["offset"])
            whole = f"record at offset {offset}: {text}"
            self.damage = CompactionDamage(self._path, offset, whole)


def _are_blank(
    keys: pa.Array, data: memoryview, at: NDArray[Any], sizes: NDArray[Any]
) -> NDArray[np.bool_]:
    """
    Which keys are only white space: RocketMQ treats them as no keys.
    """
    blank = np.zeros(len(keys), np.bool_)
    head = np.frombuffer(data, np.uint8)[np.minimum(at, len(data) - 1)]
    maybe = np.flatnonzero((sizes > 0) & _BLANKS[head])
    if len(maybe):
        some = texts(keys.take(pa.array(maybe)))
        is_space = pc.utf8_is_space(some).to_numpy(zero_copy_only=False)
        for one in np.flatnonzero(is_space).tolist():
            blank[maybe[one]] = not _NOT_BLANK & set(some[one].as_py())
    return blank


def _notes(
    notes: list[CompactionDamage] | list[QueueCount], base: int
) -> pa.RecordBatch:
    hashes = [
        0 if isinstance(one, CompactionDamage) else queue_hash(one.topic, one.queue_id)
        for one in notes
    ]
    columns = {
        "queue": hashes,
        "kind": [NOTE] * len(notes),
        "key": [note.pack() for note in notes],
        "offset": [base] * len(notes),
        "value": [0] * len(notes),
    }
    return pa.RecordBatch.from_pydict(columns, schema=SCANNED_SCHEMA)
