"""
Some segments of a store, opened as a log of their own.

A log is opened with all its segments, and one with a hole is not opened at all.
Whoever checks segments wants one, or those on one side of the hole. So they are
named by links in a temporary folder; nothing of the store is touched.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pystore.core.log_reader import LogReader
from pystore.errors import NotAStoreError
from pystore.fs.layout import COMMIT_LOG, segment_name

__all__ = ["open_view", "segment_name"]

# A folder of links on a busy disk costs as much as a segment in the cache.
_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@contextmanager
def open_view(root: str | Path, bases: Iterable[int]) -> Iterator[LogReader]:
    """
    Yields a log of these segments, which must follow each other.

    Raises:
        NotAStoreError: one is gone, or the files are no segments.
        StorageError: the system refused.
    """
    target = Path(root).absolute() / COMMIT_LOG
    with tempfile.TemporaryDirectory(prefix="pystore-view-", dir=_MEMORY) as folder:
        links = Path(folder, COMMIT_LOG)
        links.mkdir()
        for base in bases:
            path = target / segment_name(base)
            if not path.exists():
                raise NotAStoreError(f"{path}: it is gone", offset=base, path=str(path))
            os.symlink(path, links / segment_name(base))
        with LogReader(folder) as log:
            yield log
