"""
A cache of open files, with a limit.

A descriptor is closed with its last reference: a reader in another thread never reads
from a number that meanwhile belongs to another file.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from pystore.errors import ClosedError
from pystore.fs.atomic import sync_directory
from pystore.fs.regular_file import open_regular

__all__ = ["Descriptor", "FdCache"]


class Descriptor:
    """
    An open file, closed with its last reference.
    """

    __slots__ = ("number",)

    def __init__(self, path: str, flags: int) -> None:
        self.number = -1
        self.number = open_regular(path, flags)

    def __del__(self) -> None:
        if self.number >= 0:
            with contextlib.suppress(OSError):  # it was synced before
                os.close(self.number)


class FdCache:
    """
    The newest open files of the consume queues of a store, and the folders with names
    that may not be on disk.

    Args:
        limit: how many files to keep open.
    """

    def __init__(self, limit: int = 256) -> None:
        self.limit = limit
        self._open: dict[str, Descriptor] = {}
        self._unsynced: set[Path] = set()
        self._is_closed = False

    def get(self, path: str, flags: int) -> Descriptor:
        """
        Returns an open descriptor of ``path``.

        Raises:
            ClosedError: the cache was closed.
            OSError: the system refused.
        """
        found = self._open.get(path)
        if found is not None:
            return found
        if self._is_closed:
            raise ClosedError(f"{path}: the consume queues were closed", path=path)
        while len(self._open) >= self.limit:
            try:
                self._open.pop(next(iter(self._open)), None)
            except (StopIteration, RuntimeError):
                # Another thread made room at the same moment.
                break
        found = self._open[path] = Descriptor(path, flags)
        return found

    def forget(self, path: str) -> None:
        """
        Drops a file that was removed.
        """
        self._open.pop(path, None)

    def note(self, *folders: Path) -> None:
        """
        Adds folders with names that changed, or may have.
        """
        self._unsynced.update(folders)

    def sync_names(self) -> None:
        """
        Syncs the names of new and removed files and folders.

        Raises:
            StorageError: the system refused; try again.
        """
        for folder in sorted(self._unsynced):
            if folder.exists():
                sync_directory(folder)
            self._unsynced.discard(folder)

    def sync_folder(self, folder: Path) -> None:
        """
        Syncs the names of one folder, if they changed.

        Raises:
            StorageError: the system refused; try again.
        """
        if folder in self._unsynced:
            sync_directory(folder)
            self._unsynced.discard(folder)

    def close(self) -> None:
        """
        Drops every file; later calls raise.
        """
        self._is_closed = True
        self._open.clear()
