"""
The LMDB directories that this process has open.

LMDB locks bytes of ``lock.mdb`` for the process, and the system drops such locks when
the process closes *any* descriptor of the file. So a directory is claimed before one of
its files is opened, and a second claim is refused, by whatever path.

A program may still copy its own files. If no process has the lock, LMDB in the next one
takes itself for the first and starts the mutexes in the file anew, under those who wait
for them. So a claim also holds a lock of the open file description, which no other
descriptor gives up. LMDB in other processes then takes part, and starts nothing anew.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

from pystore.errors import BusyError
from pystore.fs.atomic import storage_error

__all__ = ["LmdbClaim"]

# Type, whence, start, length, process: byte 0, which LMDB locks.
_SHARED = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0, 1, 0)


class LmdbClaim:
    """
    The right of one handle to a directory in this process, until ``release`` or the end
    of the object. Any thread. A forked child inherits neither claim nor lock.

    Args:
        path: an existing directory.

    Raises:
        BusyError: another handle of this process has it.
        StorageError: the system refused.
    """

    __slots__ = ("__weakref__", "_key", "_path")

    def __init__(self, path: Path) -> None:
        try:
            status = path.stat()
        except OSError as error:
            # The error of the system does not name the path.
            raise storage_error("open", path, error) from error
        self._path = path
        self._key = (status.st_dev, status.st_ino)
        # One step, so that of two threads one has it.
        if _claims.setdefault(self._key, id(self)) != id(self):
            raise BusyError(
                f"{path} is open in this process: close that store first",
                path=str(path),
            )

    def hold(self) -> None:
        """
        Lock LMDB's lock file as LMDB does, until ``release``. Call it when LMDB has the
        directory open: before, LMDB would leave its mutexes as they are.

        Raises:
            StorageError: the system refused.
        """
        if not hasattr(fcntl, "F_OFD_SETLK"):
            return  # macOS
        path = self._path / "lock.mdb"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            _held[self._key] = descriptor
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _SHARED)
        except OSError as error:
            # The error of the system does not name the path.
            raise storage_error("lock", path, error) from error

    def release(self) -> None:
        """
        Give the directory up, after LMDB has closed it. Idempotent.
        """
        if _claims.get(self._key) == id(self):
            if (descriptor := _held.pop(self._key, None)) is not None:
                os.close(descriptor)
            del _claims[self._key]

    def __del__(self) -> None:
        if hasattr(self, "_key"):
            self.release()


_claims: dict[tuple[int, int], int] = {}
_held: dict[tuple[int, int], int] = {}


def _after_fork() -> None:
    _claims.clear()
    # The lock stays as long as one process has the descriptor.
    for descriptor in _held.values():
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_after_fork)
