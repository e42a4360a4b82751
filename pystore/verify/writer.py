"""
Who has a store open for writing.
"""

from __future__ import annotations

from pathlib import Path

from pystore.errors import StorageError
from pystore.exports import ABORT, LOCK
from pystore.lock import lock_holder

__all__ = ["running_writer"]


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
