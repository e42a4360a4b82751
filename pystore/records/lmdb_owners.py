"""
The live owners on this host: one file, in which each owner locks one byte.

A POSIX record lock ends with its process, also if forked children are alive; a lock of
`flock` would pass to them. But closing *any* descriptor of the file releases all locks
of the process, and the locks do not exclude threads of one process. So each process has
one descriptor, and a set behind a mutex has its own locks.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
import threading
from pathlib import Path

from pystore.errors import LockedError
from pystore.fs.atomic import storage_error

__all__ = ["LmdbOwners"]

if sys.platform == "darwin":
    # start, length, process, type, whence
    _LOCK = struct.Struct("qqihh")
    _TYPE_AT = 3
else:
    # type, whence, start, length, process
    _LOCK = struct.Struct("hhqqi4x")
    _TYPE_AT = 0


class LmdbOwners:
    """
    The owners of one directory, seen from one process. Any thread.

    At most one object per file and process; `pystore.records.lmdb_environment` ensures
    that.

    Args:
        path: of the file; created if it is missing.

    Raises:
        StorageError: the operating system refused.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mutex = threading.Lock()
        self._mine: set[int] = set()
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._descriptor = os.open(path, flags, 0o644)
        except OSError as error:
            # The error needs the path.
            raise storage_error("open", path, error) from error

    def take(self, number: int) -> None:
        """
        Marks an owner as alive, until `give` or the end of the process.

        Raises:
            LockedError: another process has the number.
            StorageError: the operating system refused.
        """
        with self._mutex:
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
            except OSError as error:
                if error.errno in (errno.EACCES, errno.EAGAIN):
                    # Numbers are allocated once; a restored backup breaks that.
                    raise LockedError(
                        f"{self._path}: owner {number} is alive: "
                        "was the record store copied while it was in use?",
                        path=str(self._path),
                    ) from error
                raise storage_error("lock", self._path, error) from error
            self._mine.add(number)

    def give(self, number: int) -> None:
        """
        Marks an owner as dead. Idempotent.
        """
        with self._mutex:
            if number in self._mine:
                self._mine.remove(number)
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, number)

    def is_alive(self, number: int) -> bool:
        """
        Returns whether a process has locked the owner's byte.
        """
        with self._mutex:
            if number in self._mine:
                return True
            found = fcntl.fcntl(self._descriptor, fcntl.F_GETLK, _question(number))
        kind: int = _LOCK.unpack(found)[_TYPE_AT]
        return kind != fcntl.F_UNLCK

    def close(self) -> None:
        """
        Releases all locks of this process.
        """
        with self._mutex:
            self._mine.clear()
            os.close(self._descriptor)


def _question(number: int) -> bytes:
    if sys.platform == "darwin":
        return _LOCK.pack(number, 1, 0, fcntl.F_WRLCK, os.SEEK_SET)
    return _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0)
