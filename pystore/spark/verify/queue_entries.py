"""
The entries of consume queues, by queue offset, without a look at the whole queue.

A task of a segment reads the entries of its own records only. It lists no folder and
looks for no end of a queue: a slot without an entry reads as zeros. So its cost grows
with the queues of its records, and not with those of the store.
"""

from __future__ import annotations

import errno
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pystore.consumequeue.files import QueueFiles
from pystore.consumequeue.queue import ENTRY_DTYPE, ENTRY_SIZE, Entries
from pystore.consumequeue.queues import name_problem
from pystore.errors import CorruptError, StorageError
from pystore.fs.fd_cache import FdCache
from pystore.fs.layout import CONSUME_QUEUE

__all__ = ["QueueEntries", "rising_parts"]

_INDEX_MAX = (2**63 - 1) // ENTRY_SIZE - 1
_Key = tuple[str, int]


class QueueEntries:
    """
    Reads entries of the queues of a store. One thread.

    Args:
        root: of the store.
        file_size: of its queue files, in bytes.
    """

    def __init__(self, root: Path, file_size: int) -> None:
        self._root = root
        self._per_file = file_size // ENTRY_SIZE
        self._file_size = file_size
        self._pool = FdCache()
        self._files: dict[_Key, QueueFiles] = {}
        self._absent: set[tuple[_Key, int]] = set()
        self._first: dict[_Key, int] = {}

    def close(self) -> None:
        """
        Closes the files.
        """
        self._pool.close()

    def read(self, key: _Key, indexes: NDArray[np.int64]) -> Entries:
        """
        Returns the slots of these queue offsets; zeros where the queue has no file, or
        cannot have one.

        Args:
            key: topic and queue id.
            indexes: queue offsets, in any order.

        Raises:
            CorruptError: a file ends early.
            StorageError: the system refused.
        """
        found = np.zeros(len(indexes), ENTRY_DTYPE)
        for begins, above in rising_parts(indexes):
            start = begins
            first, last = int(indexes[start]), int(indexes[above - 1])
            if first < 0 or last > _INDEX_MAX:
                continue
            while first <= last:
                base = first // self._per_file * self._per_file
                count = min(last + 1, base + self._per_file) - first
                files = self._file(key, base * ENTRY_SIZE)
                if files is not None:
                    data = _read(files, first * ENTRY_SIZE, count * ENTRY_SIZE)
                    found[start : start + count] = np.frombuffer(data, ENTRY_DTYPE)
                first, start = first + count, start + count
        return found

    def first_slot(self, key: _Key) -> int:
        """
        Returns the lowest queue offset that a file of the queue may hold. It is 0 until
        a file is missing: retention deletes the first files of a queue.
        """
        return self._first.get(key, 0)

    def _file(self, key: _Key, position: int) -> QueueFiles | None:
        """
        The files of a queue, if that at the position is there.
        """
        if (key, position) in self._absent or name_problem(*key):
            return None
        files = self._files.get(key)
        if files is None:
            name = os.fsdecode(key[0].encode("utf-8", "surrogateescape"))
            folder = self._root / CONSUME_QUEUE / name / str(key[1])
            files = self._files[key] = QueueFiles(
                folder, self._file_size, is_writable=False, pool=self._pool
            )
        try:
            files.place(position)
        except StorageError as error:
            # Above the end of the queue, or deleted by retention.
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                raise
            self._absent.add((key, position))
            files.load()
            self._first[key] = files.bases[0] // ENTRY_SIZE if files.bases else 0
            return None
        return files


def _read(files: QueueFiles, position: int, count: int) -> bytes:
    try:
        return files.read(position, count)
    except CorruptError:
        # A writer makes a file before it gives it a size. Where no writer runs, the
        # plan of the store names an empty file.
        file, _ = files.place(position)
        if os.fstat(file.number).st_size == 0:
            return bytes(count)
        return files.read(position, count)


def rising_parts(indexes: NDArray[np.int64]) -> list[tuple[int, int]]:
    """
    Returns the parts of an array whose values rise by one, as ``[start, above)``.
    """
    if not len(indexes):
        return []
    edges = np.flatnonzero(np.diff(indexes) != 1) + 1
    return list(pairwise([0, *edges.tolist(), len(indexes)]))
