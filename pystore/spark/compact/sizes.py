"""
The sizes of RocketMQ's compaction files, and the place of each record. Pure.

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
"""Size of a queue's entry, and of the entry that ends the file."""

BLANK_BYTES = 8
"""Size of the smallest blank record, which ends a file of the log."""

_FILES_MAX = 2**31 - 1
_PER_QUEUE_FILE = 5


@dataclass(frozen=True, slots=True)
class FileSizes:
    """
    The files of one broker's compaction store.

    Attributes:
        log_bytes: size of each file of a log.
        queue_bytes: size of the file of entries beside it.
    """

    log_bytes: int
    queue_bytes: int

    @property
    def entries_max(self) -> int:
        """
        The most records in one file; the last entry marks the end.
        """
        return self.queue_bytes // ENTRY_BYTES - 1


def file_sizes(log_bytes: int, queue_bytes: int) -> FileSizes:
    """
    Returns the sizes that a broker derives from its settings.

    Queue files hold whole entries. The size of a log file is a multiple of theirs.

    Args:
        log_bytes: RocketMQ's ``compactionMappedFileSize``.
        queue_bytes: RocketMQ's ``compactionCqMappedFileSize``.

    Raises:
        InvalidError: no broker can use these sizes.
    """
    queue = queue_bytes // ENTRY_BYTES * ENTRY_BYTES
    if queue < 2 * ENTRY_BYTES:
        raise InvalidError(
            f"queue files of {queue_bytes} bytes hold no entry: use at least "
            f"{2 * ENTRY_BYTES} bytes"
        )
    times, rest = divmod(log_bytes, queue)
    if times < _PER_QUEUE_FILE:
        times = _PER_QUEUE_FILE
    elif not 0 < rest < queue // 2:
        times += 1
    if times * queue > _FILES_MAX:
        raise InvalidError(
            f"log files of {times * queue} bytes: use at most {_FILES_MAX} bytes"
        )
    return FileSizes(times * queue, queue)


DEFAULT_LOG_BYTES, DEFAULT_QUEUE_BYTES = 104857600, 10485760
"""The defaults of RocketMQ's settings."""

DEFAULT_SIZES = file_sizes(DEFAULT_LOG_BYTES, DEFAULT_QUEUE_BYTES)
"""The sizes that a broker derives from the defaults."""


@dataclass
class Packer:
    """
    Gives the records of one queue their places, one after the other.

    Attributes:
        sizes: of the files.
        base: of the current file.
        at: end of the records in the current file.
        entries: number of entries in the current file.
        files: ``(base, at, entries)`` of each full file.
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
                f"a record of {sizes.max()} bytes does not fit into a file of "
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
