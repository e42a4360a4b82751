"""
Finds segments without a record of the wanted topics and queues, by consume queues.

An entry names a record, but a record may have no entry. So the entries of all queues
must cover a segment without a gap, from its first byte to its blank record. Then every
record of the segment has an entry, and the queues of the entries are the queues of the
segment. A missing queue, a transaction that was not committed, or an entry that is
missing or wrong leaves a gap, and the segment is read. If the last entry of a file
names a record of another queue, the folder was moved, and no segment is pruned.

The check for gaps needs no sorting. If records follow each other, the sum of the hashes
of all starts and the sum of the hashes of all ends differ only by the first start and
the last end.

Only a store that was closed cleanly is pruned: while a store is written, its queues may
name records that were just cut.
"""

from __future__ import annotations

import mmap
import os
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pystore.consumequeue.queue import ENTRY_DTYPE, ENTRY_SIZE, Entries, is_filler
from pystore.fs.layout import CONSUME_QUEUE
from pystore.message.constants import MAGIC_BLANK
from pystore.recovery.foreign_writer import is_closed
from pystore.spark.plan.record_head import (
    open_without_readahead,
    read_record_head,
    read_segment_bytes,
)
from pystore.spark.plan.selection import Selection

__all__ = ["PrunableSegments", "prunable_segments"]

_LIGHT = "%LMQ%"  # such a queue names records of other topics
_BLANK = MAGIC_BLANK.to_bytes(4)
_FILE_NAME = re.compile(r"[0-9]{20}")
_QUEUE_ID = re.compile(r"-?[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class PrunableSegments:
    """
    The result of the search.

    Attributes:
        bases: of the segments without a wanted record.
        bytes_read: bytes of queues and of the log that the search read.
    """

    bases: frozenset[int] = frozenset()
    bytes_read: int = 0


class _Unproven(Exception):
    """
    A queue is inconsistent: no segment is pruned.
    """


def prunable_segments(
    store: Path, size: int, bases: Sequence[int], end: int, selection: Selection
) -> PrunableSegments:
    """
    Returns the segments that hold no record of the wanted queues.

    Args:
        store: root of the store.
        size: of a segment.
        bases: of the segments to check, ascending.
        end: of the log.
        selection: of the query.
    """
    if not bases or not selection.needs_queues or not is_closed(store):
        return PrunableSegments()
    proof = _Proof(store, size, bases, end, selection)
    try:
        proof.read(store / CONSUME_QUEUE)
        found = frozenset(proof.proven() & set(bases))
    except (_Unproven, OSError, ValueError):
        # Without valid queues every segment is read.
        return PrunableSegments(bytes_read=proof.bytes_read)
    if not is_closed(store):
        # A writer opened the store meanwhile.
        return PrunableSegments(bytes_read=proof.bytes_read)
    return PrunableSegments(found, proof.bytes_read)


class _Proof:
    """
    Sums for each segment, added file by file.
    """

    def __init__(
        self,
        store: Path,
        size: int,
        bases: Sequence[int],
        end: int,
        selection: Selection,
    ) -> None:
        first, last = bases[0], bases[-1]
        self._store = store
        self._first, self._size, self._end = first, size, end
        self._stop = min(end, last + size)
        self._selection = selection
        count = (last - first) // size + 1
        self._balance = np.zeros(count, np.uint64)
        self._tops = np.zeros(count, np.int64)
        self._is_wanted = np.zeros(count, np.bool_)
        self.bytes_read = 0

    def read(self, folder: Path) -> None:
        """
        Reads the queues, the wanted ones first.
        """
        queues = sorted(_queues(folder), key=lambda queue: not self._wants(*queue[:2]))
        for topic, queue_id, path in queues:
            is_wanted = self._wants(topic, queue_id)
            if not is_wanted and self._is_wanted.all():
                return  # every segment holds a wanted record
            names = [name for name in os.listdir(path) if _FILE_NAME.fullmatch(name)]
            for name in sorted(names):
                indexes, entries = self._entries(path / name)
                if len(entries):
                    self._check_queue(topic, queue_id, int(indexes[-1]), entries[-1])
                    self._sum(indexes, entries, is_wanted=is_wanted)

    def _wants(self, topic: str, queue_id: int) -> bool:
        queues = self._selection.queues
        return self._selection.has_topic(topic) and (
            queues is None or queue_id in queues
        )

    def _entries(self, path: Path) -> tuple[NDArray[np.int64], Entries]:
        """
        The entries of one file that name these segments, and their indexes.
        """
        pages: set[int] = set()

        def field(slot: int, name: str) -> int:
            pages.add(slot * ENTRY_SIZE // mmap.PAGESIZE)
            return int(_read(file, slot, 1)[0][name])

        with open_without_readahead(path) as file:
            every = range(os.fstat(file).st_size // ENTRY_SIZE)
            used = every[: bisect_left(every, 1, key=lambda at: field(at, "size") <= 0)]
            low, high = (
                bisect_left(used, offset, key=lambda at: field(at, "offset"))
                for offset in (self._first, self._stop)
            )
            found = _read(file, low, high - low)
        self.bytes_read += found.nbytes + len(pages) * mmap.PAGESIZE
        is_named = ~is_filler(found)
        slots = np.flatnonzero(is_named) + low
        return slots + int(path.name) // ENTRY_SIZE, found[is_named]

    def _check_queue(
        self, topic: str, queue_id: int, index: int, entry: np.void
    ) -> None:
        offset = int(entry["offset"])
        base = self._first + (offset - self._first) // self._size * self._size
        found = read_record_head(self._store, base, offset)
        self.bytes_read += 2 * mmap.PAGESIZE
        if found is None or found[:3] != (topic, queue_id, index):
            raise _Unproven

    def _sum(
        self, indexes: NDArray[np.int64], entries: Entries, *, is_wanted: bool
    ) -> None:
        starts = entries["offset"].astype(np.int64)
        ends = starts + entries["size"].astype(np.int64)
        if (starts[1:] < ends[:-1]).any() or starts[0] < self._first:
            raise _Unproven
        segments = (starts - self._first) // self._size
        edges = np.flatnonzero(np.diff(segments, prepend=-1))
        at = segments[edges]
        self._balance[at] += np.add.reduceat(_hash(starts) - _hash(ends), edges)
        lasts = np.append(edges[1:], len(segments)) - 1
        self._tops[at] = np.maximum(self._tops[at], ends[lasts])
        if is_wanted:
            least = self._selection.from_queue_offset
            above = self._selection.to_queue_offset
            is_in = np.ones(len(indexes), np.bool_)
            if least is not None:
                is_in &= indexes >= least
            if above is not None:
                is_in &= indexes < above
            self._is_wanted[at] |= np.add.reduceat(is_in.astype(np.int64), edges) > 0

    def proven(self) -> set[int]:
        """
        The bases of the segments without a gap and without a wanted record.
        """
        count = len(self._tops)
        bases = self._first + np.arange(count, dtype=np.int64) * self._size
        is_filled = self._balance == _hash(bases) - _hash(self._tops)
        candidates = is_filled & ~self._is_wanted & (self._tops > bases)
        return {
            base
            for base, top in zip(
                bases[candidates].tolist(), self._tops[candidates].tolist(), strict=True
            )
            if self._is_last(base, top)
        }

    def _is_last(self, base: int, top: int) -> bool:
        """
        Whether no record follows in the segment: the segment or the log ends there,
        or a blank record fills the rest.
        """
        rest = base + self._size - top
        if rest == 0 or top == self._end:
            return True
        if rest < 8 or top > self._end:
            return False
        self.bytes_read += mmap.PAGESIZE
        found = read_segment_bytes(self._store, base, top, 8)
        return found == rest.to_bytes(4) + _BLANK


def _read(file: int, slot: int, count: int) -> Entries:
    """
    Reads entries of a queue's file. Files have their full size from the start, so
    most entries may be empty.
    """
    data = os.pread(file, count * ENTRY_SIZE, slot * ENTRY_SIZE)
    if len(data) != count * ENTRY_SIZE:
        raise _Unproven  # the file was truncated
    return np.frombuffer(data, ENTRY_DTYPE)


def _queues(folder: Path) -> Iterator[tuple[str, int, Path]]:
    """
    Topic, queue id and folder of every queue.
    """
    for topic in os.scandir(folder):
        name = os.fsencode(topic.name).decode("utf-8", "surrogateescape")
        if not topic.is_dir() or name.startswith(_LIGHT):
            continue
        for queue in os.scandir(topic.path):
            if queue.is_dir() and _QUEUE_ID.fullmatch(queue.name):
                yield name, int(queue.name), Path(queue.path)


def _hash(offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    """
    Hashes of offsets. Different sets of offsets have different sums of hashes.
    """
    mixed = offsets.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))
