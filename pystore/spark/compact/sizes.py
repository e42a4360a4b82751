"""
How large RocketMQ's compaction files are, and which record goes where. Pure.

Source: RocketMQ 5.3, ``CompactionLog``; docs/format.md, consume queues.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pystore.errors import InvalidError

__all__ = [
    "BLANK_BYTES",
    "DEFAULT_LOG_BYTES",
    "DEFAULT_QUEUE_BYTES",
    "DEFAULT_SIZES",
    "ENTRY_BYTES",
    "FileSizes",
    "Packer",
    "file_sizes",
]

ENTRY_BYTES = 46
"""Of a queue's entry, and of the one that ends a file of them."""

BLANK_BYTES = 8
"""Of the least blank record, which ends a file of the log."""

_FILES_MAX = 2**31 - 1
_PER_QUEUE_FILE = 5


@dataclass(frozen=True, slots=True)
class FileSizes:
    """
    The files of one broker's compaction store.

    Attributes:
        log_bytes: of each file of a log.
        queue_bytes: of the file of entries beside it.
    """

    log_bytes: int
    queue_bytes: int

    @property
    def entries_max(self) -> int:
        """
        Records in one file at most: the last entry is the one that ends it.
        """
        return self.queue_bytes // ENTRY_BYTES - 1


def file_sizes(log_bytes: int, queue_bytes: int) -> FileSizes:
    """
    Returns the sizes that a broker makes of its settings: queue files hold whole
    entries, and a log's file is as long as several of them.

    Args:
        log_bytes: RocketMQ's ``compactionMappedFileSize``.
        queue_bytes: RocketMQ's ``compactionCqMappedFileSize``.

    Raises:
        InvalidError: no broker could use them.
    """
    queue = queue_bytes // ENTRY_BYTES * ENTRY_BYTES
    if queue < 2 * ENTRY_BYTES:
        raise InvalidError(
            f"queue files of {queue_bytes} bytes hold no entry: at least "
            f"{2 * ENTRY_BYTES}"
        )
    times, rest = divmod(log_bytes, queue)
    if times < _PER_QUEUE_FILE:
        times = _PER_QUEUE_FILE
    elif not 0 < rest < queue // 2:
        times += 1
    if times * queue > _FILES_MAX:
        raise InvalidError(f"log files of {times * queue} bytes: at most {_FILES_MAX}")
    return FileSizes(times * queue, queue)


DEFAULT_LOG_BYTES, DEFAULT_QUEUE_BYTES = 104857600, 10485760
"""RocketMQ's defaults of its settings."""

DEFAULT_SIZES = file_sizes(DEFAULT_LOG_BYTES, DEFAULT_QUEUE_BYTES)
"""What a broker makes of them."""


@dataclass
class Packer:
    """
    Fills the files of one queue, record behind record.

    Attributes:
        sizes: of the files.
        base: of the file that is being filled.
        at: where its records end.
        entries: how many there are.
        files: ``(base, at, entries)`` of those that are full.
    """

    sizes: FileSizes
    base: int = 0
    at: int = 0
    entries: int = 0

    def __post_init__(self) -> None:
        self.files: list[tuple[int, int, int]] = []

    def place(
        self, sizes: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """
        Returns the offset of each record in the queue's log, and the number of its
        entry in the file.

        Args:
            sizes: of the records, in order.

        Raises:
            InvalidError: a record is larger than a file.
        """
        room = self.sizes.log_bytes - BLANK_BYTES
        if len(sizes) and sizes.max() > room:
            raise InvalidError(
                f"a record of {sizes.max()} bytes fits no file of "
                f"{self.sizes.log_bytes}: make log files larger, here and in the broker"
            )
        ends = np.cumsum(sizes)
        offsets = np.empty(len(sizes), np.int64)
        numbers = np.empty(len(sizes), np.int32)
        first = 0
        while first < len(sizes):
            before = int(ends[first] - sizes[first])
            last = int(np.searchsorted(ends, before + room - self.at, "right"))
            last = min(last, first + self.sizes.entries_max - self.entries)
            if last == first:
                self._roll()
                continue
            chosen = slice(first, last)
            start = self.base + self.at - before
            offsets[chosen] = start + ends[chosen] - sizes[chosen]
            numbers[chosen] = self.entries + np.arange(last - first)
            self.at += int(ends[last - 1]) - before
            self.entries += last - first
            first = last
        return offsets, numbers

    def close(self) -> list[tuple[int, int, int]]:
        """
        Returns ``(base, at, entries)`` of every file.
        """
        if self.entries:
            self._roll()
        return self.files

    def _roll(self) -> None:
        self.files.append((self.base, self.at, self.entries))
        self.base += self.sizes.log_bytes
        self.at = self.entries = 0
