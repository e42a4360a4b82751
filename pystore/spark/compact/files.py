"""
The files of an unfinished compaction: many tasks write into them.

The place of every byte is planned before the first write, so writing it twice changes
nothing. A task syncs through the descriptors that it wrote with: the system reports a
failed write-back only to them.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from pystore.fs.atomic import storage_error, sync_descriptor
from pystore.fs.layout import segment_name
from pystore.message.constants import MAGIC_BLANK
from pystore.spark.compact.sizes import BLANK_BYTES, ENTRY_BYTES, FileSizes

__all__ = ["ENTRY_DTYPE", "LOGS", "QUEUES", "OutputFiles", "make_files"]

LOGS, QUEUES = "compactionLog", "compactionCq"

ENTRY_DTYPE = np.dtype(
    [
        ("offset", ">i8"),
        ("size", ">i4"),
        ("tags_code", ">i8"),
        ("store_ms", ">i8"),
        ("queue_offset", ">i8"),
        ("count", ">i2"),
        ("compacted", ">i4"),
        ("reserved", ">i4"),
    ]
)
"""An entry of a queue (RocketMQ 5.3, ``SparseConsumeQueue``)."""

_END = np.array([(-1, 0, 0, 0, 0, 0, -1, 0)], ENTRY_DTYPE).tobytes()
_BLANK = struct.Struct(">II")
_OPEN_MAX = 256


class OutputFiles:
    """
    A bounded number of open files. A file is synced before it is closed to make room.

    A context manager; one thread.

    Args:
        folder: the paths are relative to it.
        flags: for ``open``, in addition to write-only.
    """

    def __init__(self, folder: Path, flags: int = 0) -> None:
        self._folder = str(folder)
        self._flags = flags | os.O_WRONLY | os.O_CLOEXEC
        self._open: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """
        Closes all files without a sync; may be called again.
        """
        while self._open:
            os.close(self._open.popitem()[1])

    def write(self, name: str, at: int, data: memoryview | bytes) -> None:
        """
        Writes data at a position of a file.

        Raises:
            FullError: no space is left.
            StorageError: the system refused.
        """
        rest = memoryview(data)
        try:
            file = self._file(name)
            while rest:
                written = os.pwrite(file, rest, at)
                rest, at = rest[written:], at + written
        except OSError as error:
            # The caller gets the path with it.
            raise storage_error("write", self._path(name), error) from error

    def resize(self, name: str, size: int) -> None:
        """
        Gives a file its size; new bytes are zero.

        Raises:
            StorageError: the system refused.
        """
        try:
            os.ftruncate(self._file(name), size)
        except OSError as error:
            # The caller gets the path with it.
            raise storage_error("resize", self._path(name), error) from error

    def sync(self) -> None:
        """
        Syncs and closes all files.

        Raises:
            StorageError: the system refused; written data may be lost.
        """
        while self._open:
            self._close(next(iter(self._open)))

    def _path(self, name: str) -> Path:
        return Path(self._folder, name)

    def _file(self, name: str) -> int:
        file = self._open.get(name)
        if file is None:
            if len(self._open) >= _OPEN_MAX:
                self._close(next(iter(self._open)))
            path = os.path.join(self._folder, name)
            file = self._open[name] = os.open(path, self._flags, 0o644)
        return file

    def _close(self, name: str) -> None:
        file = self._open.pop(name)
        try:
            sync_descriptor(file)
        except OSError as error:
            # The caller gets the path with it.
            raise storage_error("sync", self._path(name), error) from error
        finally:
            os.close(file)


def make_files(
    folder: Path, queue: str, files: tuple[tuple[int, int, int], ...], sizes: FileSizes
) -> None:
    """
    Makes the files of one queue, with an end mark behind the records and entries.

    The rest of the files is empty. Existing files keep their content.

    Args:
        folder: of the compaction.
        queue: path of the queue below the topics' directory.
        files: of each file the base, the end of its records, the number of entries.
        sizes: of the files.

    Raises:
        StorageError: the system refused.
    """
    for kind in (LOGS, QUEUES):
        path = folder / kind / queue
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            # The caller gets the path with it.
            raise storage_error("make", path, error) from error
    with OutputFiles(folder, os.O_CREAT) as outputs:
        for base, end, entries in files:
            log, entry = (
                f"{kind}/{queue}/{segment_name(base)}" for kind in (LOGS, QUEUES)
            )
            rest = sizes.log_bytes - end
            outputs.resize(log, sizes.log_bytes)
            assert rest >= BLANK_BYTES
            outputs.write(log, end, _BLANK.pack(rest, MAGIC_BLANK))
            outputs.resize(entry, sizes.queue_bytes)
            outputs.write(entry, entries * ENTRY_BYTES, _END)
        outputs.sync()
