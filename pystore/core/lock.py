"""
The lock of a store: one writer, of any program and any process.

Source: docs/crash-safety.md, one writer; docs/format.md, small files (1.10).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pystore.bindings.ffi import borrow, check, ffi, give_back, lib
from pystore.errors import StorageError
from pystore.fs.layout import ABORT, LOCK

if TYPE_CHECKING:
    from types import TracebackType

    from pystore._core import CData

__all__ = ["Lock", "lock_holder", "running_writer"]


class Lock:
    """
    The right to write, from construction to ``release``. Any thread may call.

    Args:
        path: of the file ``lock`` in a store; made if it is missing.

    Raises:
        LockedError: a pystore or a Java process writes, or this one does.
        StorageError: the system refused.
    """

    __slots__ = ("_held", "path")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        found = ffi.new("ps_lock **")
        scratch = borrow()
        status = lib.ps_lock_acquire(os.fsencode(self.path), found, scratch.error)
        check(status, scratch.error, self.path)
        give_back(scratch)
        # Given back with the last reference, which nobody else gets.
        self._held: list[CData] = [ffi.gc(found[0], lib.ps_lock_release)]

    @property
    def is_held(self) -> bool:
        """
        Whether it was not released yet.
        """
        return bool(self._held)

    def release(self) -> None:
        """
        Gives the store back; again is fine.
        """
        self._held.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def lock_holder(path: str | os.PathLike[str]) -> int | None:
    """
    Returns the process that holds a lock; ``None``: nobody does. Any thread may call.

    The lock is not taken, not even for a moment: a writer that starts just then
    would be refused. The system knows who holds it, so a number that a dead
    process left behind in ``abort``, and another one has now, misleads nobody.

    Args:
        path: of the file ``lock`` in a store; it may be missing.

    Returns:
        its number, or -1 where it has none here (another container or host).

    Raises:
        StorageError: the system refused.
    """
    pid = ffi.new("int64_t *")
    scratch = borrow()
    status = lib.ps_lock_holder(os.fsencode(path), pid, scratch.error)
    check(status, scratch.error, os.fspath(path))
    give_back(scratch)
    return int(pid[0]) or None


def running_writer(root: Path) -> int | None:
    """
    Returns the process that has a store open, or -1 if its number is not known here.

    Args:
        root: of the store.
    """
    if not (root / ABORT).exists():
        # Closed, or not opened yet.
        return None
    try:
        return lock_holder(root / LOCK)
    except StorageError:
        # Whoever may not read the lock cannot know; what is judged then is the
        # store as it lies there.
        return None
