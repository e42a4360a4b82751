"""
Open files that many users share: at most so many, the newest.

A descriptor is closed when its last user lets it go: a reader in another thread
never reads from a number that meanwhile means another file.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from pystore.errors import ClosedError
from pystore.fs.atomic import sync_directory

__all__ = ["Descriptor", "FdCache"]


class Descriptor:
    """
    An open file that closes itself when nobody holds it.
    """

    __slots__ = ("number",)

    def __init__(self, path: str, flags: int) -> None:
        self.number = -1
        self.number = os.open(path, flags | os.O_CLOEXEC, 0o644)

    def __del__(self) -> None:
        if self.number >= 0:
            with contextlib.suppress(OSError):  # users sync before
                os.close(self.number)


class FdCache:
    """
    What the queues of a store share: open files, at most so many, the newest, and
    the folders whose names are not on disk for sure.

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
            ClosedError: the pool was closed.
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
        Lets go of a file that was removed.
        """
        self._open.pop(path, None)

    def note(self, *folders: Path) -> None:
        """
        Remembers folders whose names changed, or may have.
        """
        self._unsynced.update(folders)

    def sync_names(self) -> None:
        """
        Puts the names of new and removed files and folders onto the disk.

        Raises:
            StorageError: the system refused; try again.
        """
        for folder in sorted(self._unsynced):
            if folder.exists():
                sync_directory(folder)
            self._unsynced.discard(folder)

    def sync_folder(self, folder: Path) -> None:
        """
        The same for one folder, if its names changed.

        Raises:
            StorageError: the system refused; try again.
        """
        if folder in self._unsynced:
            sync_directory(folder)
            self._unsynced.discard(folder)

    def close(self) -> None:
        """
        Lets go of every file; later uses raise.
        """
        self._is_closed = True
        self._open.clear()
