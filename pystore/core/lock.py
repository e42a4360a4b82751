"""
The lock of a store: one writer at a time, of any program.

Source: docs/crash-safety.md, A18; docs/format.md, small files (1.10).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pystore.bindings.ffi import borrow, check, ffi, give_back, lib
from pystore.errors import ClosedError, StorageError
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
        LockedError: a writer has the store: pystore, Java, or this process.
        NotAStoreError: no regular file, or one that another store shares.
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
        # Released with the last reference, which is in this list only.
        self._held: list[CData] = [ffi.gc(found[0], lib.ps_lock_release)]

    @property
    def is_held(self) -> bool:
        """
        Whether it is not released yet.
        """
        return bool(self._held)

    @property
    def pointer(self) -> CData:
        """
        The ``ps_lock``; valid until ``release``.

        Raises:
            ClosedError: after ``release``.
        """
        held = self._held
        if not held:
            raise ClosedError(f"{self.path} was released", path=self.path)
        return held[0]

    def check(self) -> None:
        """
        Makes sure that the file that is locked has its name still, in its directory.

        Raises:
            PoisonedError: it has not, so another writer may have the store.
            ClosedError: after ``release``.
        """
        scratch = borrow()
        status = lib.ps_lock_check(self.pointer, scratch.error)
        check(status, scratch.error, self.path)
        give_back(scratch)

    def release(self) -> None:
        """
        Releases the lock; calling it again is allowed.
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
    Returns the process that holds a lock; ``None``: no process. Any thread may call.

    The lock is never taken, since a writer that starts at that moment would be refused.
    The system knows the holder; the number in ``abort`` may be that of a dead process,
    which another process has now.

    Args:
        path: of the file ``lock`` in a store; it may be missing.

    Returns:
        Its process id, or -1 if it has none here (another container or host).

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
    Returns the process that has a store open, or -1 if its id is not known here.

    Args:
        root: of the store.
    """
    if not (root / ABORT).exists():
        # Closed, or not opened yet.
        return None
    try:
        return lock_holder(root / LOCK)
    except StorageError:
        # Without the right to read the lock, the store counts as closed.
        return None
