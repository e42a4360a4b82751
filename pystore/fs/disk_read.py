"""
Bytes of a file as its disk has them, not as the memory of the system does.

A check of a copy says nothing of the disk if the pages that were written last are read:
they may never have come there. ``O_DIRECT`` reads past the page cache, which mappings
of other processes keep full; where a file system has none, the pages are dropped first,
as far as the system drops them.
"""

from __future__ import annotations

import errno
import mmap
import os
import sys

__all__ = ["read_disk"]

_ALIGNED = 4096
_DIRECT: int = getattr(os, "O_DIRECT", 0)


def read_disk(path: str | os.PathLike[str], at: int, size: int) -> bytes:
    """
    Returns up to *size* bytes at a position, fewer at the end of the file.

    Raises:
        OSError: the system refused.
    """
    if _DIRECT:
        try:
            return _read_direct(path, at, size)
        except OSError as error:
            # The file system has no such reads, or none of this alignment.
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                raise
    return _read_dropped(path, at, size)


def _read_direct(path: str | os.PathLike[str], at: int, size: int) -> bytes:
    low = at - at % _ALIGNED
    high = -(-(at + size) // _ALIGNED) * _ALIGNED
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | _DIRECT)
    try:
        with mmap.mmap(-1, max(high - low, _ALIGNED)) as buffer:
            done = 0
            while low + done < high:
                with memoryview(buffer)[done:] as rest:
                    got = os.preadv(file, [rest], low + done)
                done += got
                if got % _ALIGNED or not got:
                    break  # the end of the file
            return buffer[at - low : min(done, at - low + size)]
    finally:
        os.close(file)


def _read_dropped(path: str | os.PathLike[str], at: int, size: int) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if sys.platform == "linux":
            os.posix_fadvise(file, at, size, os.POSIX_FADV_DONTNEED)
        pieces = []
        while size and (piece := os.pread(file, size, at)):
            pieces.append(piece)
            at, size = at + len(piece), size - len(piece)
        return b"".join(pieces)
    finally:
        os.close(file)
