"""
The space of a file system: how much is used, and whether a job has enough.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from pystore.errors import FullError
from pystore.text import size_text

__all__ = ["require_free", "usable_bytes", "used_percent"]


def used_percent(folder: Path) -> int:
    """
    Returns how full a file system is, in percent, rounded up: of what a process without
    special rights can use. As RocketMQ's `UtilAll.getDiskPartitionSpaceUsedPercent`.

    Args:
        folder: in it; it exists.

    Raises:
        OSError: the system does not say.
    """
    told = os.statvfs(folder)
    used = told.f_blocks - told.f_bfree
    usable = used + told.f_bavail
    # Some file systems have no size.
    return -(-100 * used // usable) if usable else 0


def usable_bytes(folder: Path) -> tuple[int, int]:
    """
    Returns the size of a file system and how much of it is free, in bytes: of what a
    process without special rights can use.

    Args:
        folder: in it; it exists.

    Raises:
        OSError: the system does not say.
    """
    told = os.statvfs(folder)
    free = told.f_bavail
    return (
        (told.f_blocks - told.f_bfree + free) * told.f_frsize,
        free * told.f_frsize,
    )


def require_free(folder: Path, needed: int, job: str, advice: str) -> None:
    """
    Makes sure that a disk has space for what a job will write.

    Args:
        folder: on the disk; it exists.
        needed: in bytes.
        job: what takes them, for the error.
        advice: what to do.

    Raises:
        FullError: there is less.
    """
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise FullError(
            f"{folder}: {job} needs {size_text(needed)}, {size_text(free)} are free: "
            f"{advice}",
            path=str(folder),
        )
