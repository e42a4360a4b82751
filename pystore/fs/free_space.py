"""
A look at the free space of a disk before a job fills it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pystore.errors import FullError
from pystore.text import size_text

__all__ = ["require_free"]


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
