"""
One consume queue: the offsets of the records of one topic and queue.

The entry of queue offset n is at byte 20 n. In the first file, slots before the first
written entry have a filler. Entries are in the order of the log; the first slot
without a valid entry ends the queue.

Layout: docs/format.md, consume queues (RocketMQ 5.3: ``ConsumeQueue``).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pystore.consumequeue.files import QueueFiles
from pystore.errors import InvalidError, OffsetOutOfRange
from pystore.fs.fd_cache import Descriptor

__all__ = ["ENTRY_DTYPE", "ENTRY_SIZE", "ConsumeQueue", "Entries", "QueueEntry"]

ENTRY_DTYPE = np.dtype([("offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
"""One entry on disk: log offset, record size, tags code."""

ENTRY_SIZE = ENTRY_DTYPE.itemsize

Entries: TypeAlias = NDArray[np.void]
"""An array of `ENTRY_DTYPE`."""

_ENTRY = struct.Struct(">qiq")
_FILES_READ = 3
_LAST_READ, _ENTRIES_READ = 32, 1 << 18
"""Entries that are read at once, from the end of a queue on."""
_FILLER_SIZE = 2**31 - 1
_unpack_entry = _ENTRY.unpack
_tuple_new = tuple.__new__
_FILLER = _ENTRY.pack(0, _FILLER_SIZE, 0)
_FILLER_SLOT = np.frombuffer(_FILLER, ENTRY_DTYPE)[0]
_LAST_INDEX = (2**63 - 1) // ENTRY_SIZE - 1


class QueueEntry(NamedTuple):
    """
    The offset and size of one record, and the code of its tags.
    """

    offset: int
    size: int
    tags_code: int


class ConsumeQueue:
    """
    The entries of one topic and queue.

    Reads: any thread. Changes: one thread at a time.

    Args:
        topic: its name.
        queue_id: its number.
        files: its bytes.

    Attributes:
        first_slot: the lowest queue offset with a file.
        max_index: the next queue offset.
        end_offset: the end of the last record of the queue, in the log; 0: no record.
    """

    def __init__(self, topic: str, queue_id: int, files: QueueFiles) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.files = files
        self.first_slot = 0
        self.max_index = 0
        self.end_offset = 0
        self._file_size = files.file_size

    def __repr__(self) -> str:
        return f"ConsumeQueue({self.topic!r}, {self.queue_id}, max={self.max_index})"

    # -- opening --------------------------------------------------------------

    def load(self, expected: int | None = None, *, by_bisection: bool = False) -> None:
        """
        Finds the end of the queue anew.

        The queue ends at its first slot without an entry, in whatever file: after a
        power cut, files in the middle may have come back as zeros. The last three files
        are read as a whole, as in RocketMQ. Of an older one the first and the last slot
        are read, and all of it only if the system has no data for a part of it. If the
        queue ends at the expected queue offset, two slots are read.

        Args:
            expected: the stored ``max_index`` of the last close.
            by_bisection: read some 20 slots, whatever the queue has. The caller reads
                the entries afterwards, and looks for a slot without one.

        Raises:
            CorruptError: a file has a wrong name or length.
            StorageError: the system refused.
        """
        self.files.load()
        self._find_first_slot()
        if expected is not None and self._ends_at(expected):
            self.max_index = expected
        elif by_bisection:
            self.max_index = self._bisect_end()
        else:
            self.max_index = self._count_entries()
        self._find_end_offset()

    def _ends_at(self, index: int) -> bool:
        end = self.files.end // ENTRY_SIZE
        if not self.first_slot < index <= end:
            return False
        last, after = _ENTRY.unpack(self._slot(index - 1)), bytes(ENTRY_SIZE)
        if index < end:
            after = self._slot(index)
        return _is_entry(*last) and not any(after)

    def _count_entries(self) -> int:
        older = len(self.files.bases) - _FILES_READ
        for number, base in enumerate(self.files.bases):
            if number < older and self._is_filled(base):
                continue
            entries = self._file_entries(base)
            valid = (entries["offset"] >= 0) & (entries["size"] > 0)
            if not valid.all():
                return base // ENTRY_SIZE + int(valid.argmin())
        return self.files.end // ENTRY_SIZE

    def _bisect_end(self) -> int:
        per_file = self._file_size // ENTRY_SIZE
        for base in reversed(self.files.bases):
            low = base // ENTRY_SIZE
            high = low + per_file
            if not self._has_entry(low):
                continue
            while high - low > 1:
                middle = (low + high) // 2
                if self._has_entry(middle):
                    low = middle
                else:
                    high = middle
            return high
        return self.first_slot

    def _has_entry(self, index: int) -> bool:
        return _is_entry(*_ENTRY.unpack(self._slot(index)))

    def _is_filled(self, base: int) -> bool:
        """
        Whether an older file has entries at both ends and no hole, at a cost that does
        not grow with its size.
        """
        first, last = base // ENTRY_SIZE, (base + self._file_size) // ENTRY_SIZE - 1
        if not all(self._has_entry(at) for at in (first, last)):
            return False
        return not self.files.has_hole(base)

    def _find_first_slot(self) -> None:
        bases = self.files.bases
        self.first_slot = bases[0] // ENTRY_SIZE if bases else 0

    def _find_end_offset(self) -> None:
        last = self.last_entry()
        self.end_offset = last.offset + last.size if last else 0

    # -- reading --------------------------------------------------------------

    def _slot(self, index: int) -> bytes:
        return self.files.read(index * ENTRY_SIZE, ENTRY_SIZE)

    def _file_entries(self, base: int) -> Entries:
        return np.frombuffer(self.files.read(base, self._file_size), ENTRY_DTYPE)

    def read(self, index: int) -> QueueEntry:
        """
        Returns the entry of one queue offset.

        Raises:
            OffsetOutOfRange: the entry does not exist, or was deleted.
        """
        if not self.first_slot <= index < self.max_index:
            raise self._out_of_range(index)
        data = self.files.read(index * ENTRY_SIZE, ENTRY_SIZE)
        if data == _FILLER:
            raise self._out_of_range(index)
        return _tuple_new(QueueEntry, _unpack_entry(data))

    def place(self, index: int) -> tuple[Descriptor, int]:
        """
        Returns the file with the entry of one queue offset, and its position in it.

        Raises:
            OffsetOutOfRange: as `read`.
            StorageError: the system refused.
        """
        if not self.first_slot <= index < self.max_index:
            raise self._out_of_range(index)
        return self.files.place(index * ENTRY_SIZE)

    def _out_of_range(self, index: int) -> OffsetOutOfRange:
        return OffsetOutOfRange(
            f"{self.topic}, queue {self.queue_id}: queue offset {index} is not within "
            f"[{self.first_slot}, {self.max_index})"
        )

    def last_entry(self) -> QueueEntry | None:
        """
        Returns the last entry of a record, not a filler.
        """
        above, count = self.max_index, _LAST_READ
        while above > self.first_slot:
            first = max(self.first_slot, above - count)
            entries = self.entries(first, above - first)
            named = np.flatnonzero(~is_filler(entries))
            if len(named):
                return QueueEntry._make(entries[named[-1]].item())
            above, count = first, min(count * 8, _ENTRIES_READ)
        return None

    def entries(self, first: int, count: int) -> Entries:
        """
        Returns up to ``count`` entries from ``first`` on, read-only; fewer at the
        end of the queue. They may include fillers (`is_filler`).

        Raises:
            OffsetOutOfRange: ``first`` is below the first file or above the end.
        """
        if not self.first_slot <= first <= self.max_index:
            raise self._out_of_range(first)
        count = max(0, min(count, self.max_index - first))
        data = self.files.read(first * ENTRY_SIZE, count * ENTRY_SIZE) if count else b""
        return np.frombuffer(data, ENTRY_DTYPE)

    def find_tags(self, code: int, first: int, count: int) -> NDArray[np.int64]:
        """
        Returns the queue offsets, among ``count`` from ``first`` on, whose records
        may have a tag. The caller compares the tags.

        Args:
            code: `pystore.message.properties.tags_code` of the tag.
            first: the first queue offset.
            count: of entries to search.
        """
        entries = self.entries(first, count)
        found = (entries["tags_code"] == code) & ~is_filler(entries)
        return np.flatnonzero(found).astype(np.int64) + first

    def first_index(self, min_offset: int) -> int:
        """
        Returns the first queue offset with a record in the log; the end if there is
        none.

        Args:
            min_offset: the log's minimum offset.
        """
        for base in self.files.bases:
            first = base // ENTRY_SIZE
            entries = self.entries(first, self._file_size // ENTRY_SIZE)
            is_in_log = (entries["offset"] >= min_offset) & ~is_filler(entries)
            if is_in_log.any():
                return first + int(is_in_log.argmax())
        return self.max_index

    def min_index(self, min_offset: int) -> int:
        """
        Returns the minimum queue offset that RocketMQ reports after a restart.

        RocketMQ searches the first file only. If no record of that file is left, it
        reports 0, where nothing can be read (`first_index` is the right one).

        Args:
            min_offset: the log's minimum offset.
        """
        first = self.first_slot
        if first >= self.max_index:
            return 0
        if self._offset_at(self.max_index - 1) < min_offset:
            return self.max_index
        if first == 0 and self._offset_at(0) >= min_offset:
            return 0
        offsets = self.entries(first, self._file_size // ENTRY_SIZE)["offset"]
        low, high = 0, len(offsets) - 1
        while high - low > 1:
            middle = (low + high) // 2
            if offsets[middle] == min_offset:
                low = high = middle
            elif offsets[middle] > min_offset:
                high = middle
            else:
                low = middle
        for at in range(low, high + 1):
            if offsets[at] >= min_offset:
                return first + at
        return 0

    def _offset_at(self, index: int) -> int:
        return int(_ENTRY.unpack(self._slot(index))[0])

    def index_at_time(
        self, time_ms: int, min_offset: int, store_ms: Callable[[int], int]
    ) -> int:
        """
        Returns the first queue offset whose record was stored at or after a time;
        the end if there is none. Reads about 20 records.

        Args:
            time_ms: the time.
            min_offset: the log's minimum offset.
            store_ms: the store time of the record at a log offset.
        """
        low, high = self.first_index(min_offset), self.max_index
        while low < high:
            middle = (low + high) // 2
            if store_ms(self._offset_at(middle)) < time_ms:
                low = middle + 1
            else:
                high = middle
        return low

    # -- changing -------------------------------------------------------------

    def append(self, index: int, entries: Entries) -> None:
        """
        Writes entries at consecutive queue offsets, all or none.

        Skipped slots get the filler: from the beginning of the first file, or, if the
        log lost records, from the end of the queue.

        Args:
            index: the queue offset of the first; not below ``max_index``.
            entries: in the order of the log.

        Raises:
            InvalidError: an index below the end, or beyond what a file can hold.
            FullError: no space is left; nothing was written.
            StorageError: the system refused; nothing was written.
        """
        if not len(entries):
            return
        if not self.max_index <= index <= _LAST_INDEX - len(entries):
            raise InvalidError(
                f"{self.topic}, queue {self.queue_id}: cannot append at queue offset "
                f"{index}, the queue ends at {self.max_index}"
            )
        start = self.max_index
        if not self.files.bases:
            start = index - index % (self._file_size // ENTRY_SIZE)
        data = _FILLER * (index - start) + entries.tobytes()
        self.files.write(start * ENTRY_SIZE, data)
        self._find_first_slot()
        self.end_offset = int(entries["offset"][-1]) + int(entries["size"][-1])
        self.max_index = index + len(entries)

    def insert(self, index: int, entries: Entries, first: int) -> None:
        """
        Writes entries at consecutive queue offsets, also in slots that were skipped.

        Args:
            index: the queue offset of the first.
            entries: whose slots have no entry.
            first: the lowest queue offset that the queue will have; a new queue begins
                there.

        Raises:
            InvalidError: the index is below the first file, or beyond the last one.
            FullError: no space is left.
            StorageError: the system refused.
        """
        per_file = self._file_size // ENTRY_SIZE
        if not self.files.bases:
            self.max_index = min(first, index) // per_file * per_file
        while index // per_file > self.max_index // per_file:
            fillers = per_file - self.max_index % per_file
            self.files.write(self.max_index * ENTRY_SIZE, _FILLER * fillers)
            self.max_index += fillers
        self._find_first_slot()
        below = min(len(entries), max(0, self.max_index - index))
        if below:
            if index < self.first_slot:
                raise self._out_of_range(index)
            self.files.write(index * ENTRY_SIZE, entries[:below].tobytes())
        self.append(index + below, entries[below:])

    def prepend(
        self, indexes: NDArray[np.int64], entries: Entries, temporary: Path
    ) -> None:
        """
        Writes entries in the place of fillers, and in files before the first one.

        Files come from the top down, so that none is missing between two others. A new
        queue ends after the last entry.

        Args:
            indexes: their queue offsets, ascending, at least one.
            entries: in the order of the log.
            temporary: a directory of the file system of the queue.

        Raises:
            FullError: no space is left; the same entries may be written again.
            StorageError: the system refused; likewise.
        """
        per_file, is_new = self._file_size // ENTRY_SIZE, not self.files.bases
        last = int(indexes[-1])
        highest = last // per_file
        if not is_new:
            highest = max(highest, self.first_slot // per_file - 1)
        for number in range(highest, int(indexes[0]) // per_file - 1, -1):
            low = number * per_file
            start, end = np.searchsorted(indexes, [low, low + per_file]).tolist()
            places, part = indexes[start:end] - low, entries[start:end]
            if low * ENTRY_SIZE in self.files.bases:
                self._write_runs(low, places, part)
                continue
            slots = np.full(per_file, _FILLER_SLOT, ENTRY_DTYPE)
            slots[places] = part
            content = slots.tobytes()
            if is_new and number == highest:
                used = (last + 1 - low) * ENTRY_SIZE
                content = content[:used] + bytes(len(content) - used)
            self.files.add_below(low * ENTRY_SIZE, content, temporary)
        self._find_first_slot()
        if is_new:
            self.end_offset = int(entries["offset"][-1]) + int(entries["size"][-1])
            self.max_index = last + 1

    def _write_runs(
        self, low: int, places: NDArray[np.int64], entries: Entries
    ) -> None:
        """
        Writes entries into a file that begins with slot ``low``.
        """
        edges = np.flatnonzero(np.diff(places) != 1) + 1
        for run in np.split(np.arange(len(places)), edges):
            if len(run):
                at = (low + int(places[run[0]])) * ENTRY_SIZE
                self.files.write(at, entries[run].tobytes())

    def cut(self, end: int) -> int:
        """
        Removes the entries of records at or above a log offset, and zeroes all bytes
        after the last entry.

        If files at the front were deleted, the last file stays, so that queue offsets
        never restart at 0.

        Args:
            end: the log's end.

        Returns:
            The number of removed entries.
        """
        before, self.max_index = self.max_index, self._cut_index(end)
        self.files.cut(self.max_index * ENTRY_SIZE, keep_first=self.first_slot > 0)
        self._find_first_slot()
        self._find_end_offset()
        return before - self.max_index

    def length_below(self, end: int) -> int:
        """
        The next queue offset after the records below a log offset.
        """
        return self._cut_index(end)

    def _cut_index(self, end: int) -> int:
        for base in reversed(self.files.bases):
            first = base // ENTRY_SIZE
            if first >= self.max_index:
                continue
            entries = self.entries(first, self._file_size // ENTRY_SIZE)
            gone = (entries["offset"] >= end) & ~is_filler(entries)
            if not gone.any():
                return first + len(entries)
            if not gone[0]:
                return first + int(gone.argmax())
        return self.first_slot

    def delete_before(self, min_offset: int) -> int:
        """
        Removes files at the front without a record in the log; the last file stays.

        Args:
            min_offset: the log's minimum offset.

        Returns:
            The number of removed files.
        """
        removed = 0
        per_file = self._file_size // ENTRY_SIZE
        while len(self.files.bases) > 1:
            base = self.files.bases[0]
            if self._offset_at(base // ENTRY_SIZE + per_file - 1) >= min_offset:
                break
            self.files.remove(base)
            self._find_first_slot()
            removed += 1
        return removed


def is_filler(entries: Entries) -> NDArray[np.bool_]:
    """
    Marks the slots without a record.
    """
    found: Any = (entries["size"] == _FILLER_SIZE) & (entries["offset"] == 0)
    return np.asarray(found, dtype=np.bool_)


def _is_entry(offset: int, size: int, _tags_code: int) -> bool:
    return offset >= 0 and size > 0
