"""
Small files of a store, read whole: regular files only.

An open of a pipe would wait for its other end, for ever.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from pystore.errors import FormatError

__all__ = ["open_regular", "read_regular"]


def open_regular(path: str | os.PathLike[str], flags: int, mode: int = 0o644) -> int:
    """
    Open a file and return its descriptor; a pipe or a device is refused at once.

    Raises:
        FormatError: it is no regular file.
        OSError: the system refused, as for a missing file or a directory.
    """
    # A regular file ignores the flag.
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, mode)
    try:
        kind = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(kind) or stat.S_ISREG(kind):
            return descriptor
        where = os.fspath(path)
        raise FormatError(
            f"{where}: not a regular file: move it away, and restore the file if "
            "there was one",
            path=where,
        )
    except BaseException:
        # The caller gets no descriptor.
        os.close(descriptor)
        raise


def read_regular(path: Path) -> bytes:
    """
    Return the content of a file.

    Raises:
        FormatError: it is no regular file.
        OSError: the system refused, as for a missing file or a directory.
    """
    with open(open_regular(path, os.O_RDONLY), "rb") as file:
        return file.read()
