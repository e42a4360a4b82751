"""
The bytes of a log by offset, read from the files that are there.
"""

from __future__ import annotations

import errno
import os
from bisect import bisect_right
from typing import NamedTuple

from pystore.fs.atomic import storage_error
from pystore.salvage.pieces import PiecedLog, SourcePiece

__all__ = ["LogBytes", "Stretch"]


class Stretch(NamedTuple):
    """
    Bytes of one file, or of none.

    Attributes:
        piece: the file; ``None``: no file has them.
        end: the offset behind the last of them.
    """

    piece: SourcePiece | None
    end: int


class LogBytes:
    """
    Reads a log. A context manager; one thread at a time.

    Args:
        log: its files.
    """

    def __init__(self, log: PiecedLog) -> None:
        self._pieces = log.pieces
        self._starts = [piece.start for piece in log.pieces]
        self._open: tuple[SourcePiece, int] | None = None

    def __enter__(self) -> LogBytes:
        return self

    def __exit__(self, *_: object) -> None:
        if self._open is not None:
            os.close(self._open[1])
            self._open = None

    def stretch(self, offset: int, end: int) -> Stretch:
        """
        Returns the file that holds an offset, and how far it or the gap reaches, at
        most to *end*.
        """
        at = bisect_right(self._starts, offset)
        piece = self._pieces[at - 1] if at else None
        if piece is not None and offset < piece.end:
            return Stretch(piece, min(piece.end, end))
        return Stretch(None, min([end, *self._starts[at : at + 1]]))

    def read(self, piece: SourcePiece, offset: int, size: int) -> bytes | None:
        """
        Returns bytes of a file; fewer if it was shortened meanwhile; ``None``: the disk
        cannot read them.

        Raises:
            StorageError: the system refused.
        """
        try:
            if self._open is None or self._open[0] != piece:
                self.__exit__()
                self._open = piece, os.open(piece.path, os.O_RDONLY)
            return os.pread(self._open[1], size, offset - piece.start)
        except OSError as error:
            if error.errno == errno.EIO:
                return None
            # The error of the system does not name the path.
            raise storage_error("read", piece.path, error) from error
