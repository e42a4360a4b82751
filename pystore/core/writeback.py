"""
Early write-back of files that are written beside a log.
"""

from __future__ import annotations

from pystore.bindings.ffi import lib

__all__ = ["start_writeback"]


def start_writeback(file: int, at: int, size: int) -> None:
    """
    Starts to write bytes of a file to the disk, and does not wait: a later sync of it
    is short, and delays no sync of the log. A hint; any thread.

    Args:
        file: its descriptor.
        at: of the first byte.
        size: in bytes.
    """
    lib.ps_file_writeback(file, at, size)
