"""
The pieces of a log: files that are read one by one, whatever is missing between them.

A piece is a segment, a segment that was cut short, or a file of a ``.lost-`` directory,
which begins anywhere in its segment. Each is opened as a log of one segment, so that
the core scans it. For a whole segment that is a link; other pieces are first copied to
their place in an empty segment, which costs space on the disk and no memory.

The source is opened for reading only, and never as a whole.
"""

from __future__ import annotations

import errno
import math
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from pystore.core.log_reader import LogReader
from pystore.core.options import LogOptions
from pystore.errors import NotAStoreError
from pystore.fs.atomic import storage_error
from pystore.fs.layout import COMMIT_LOG, segment_name

__all__ = ["PiecedLog", "SegmentFrame", "SourcePiece", "find_pieces", "open_piece"]

SEGMENT_SIZE_MAX = 2**31 - 1
_SEGMENT_SIZE_MIN = 128
_DIGITS = 20
_CHUNK = 1 << 20
_PAGE = 4096


class SourcePiece(NamedTuple):
    """
    A file of a log.

    Attributes:
        path: of the file.
        start: the offset of its first byte.
        size: in bytes.
    """

    path: Path
    start: int
    size: int

    @property
    def end(self) -> int:
        """
        The offset behind its last byte.
        """
        return self.start + self.size


class SegmentFrame(NamedTuple):
    """
    The segment that a piece belongs to.

    Attributes:
        base: its base offset.
        size: in bytes.
        is_known: whether the segments of the log are known to have this size.
    """

    base: int
    size: int
    is_known: bool


class PiecedLog(NamedTuple):
    """
    The pieces of one log.

    Attributes:
        folder: that holds the files.
        pieces: by ascending offset, without empty ones.
        segment_size: in bytes; ``None``: the files do not show it.
        is_store: whether they are the segments of a store; saved bytes end before the
            zeros at the end of their segment.
    """

    folder: Path
    pieces: tuple[SourcePiece, ...]
    segment_size: int | None
    is_store: bool

    def gaps(self) -> Iterator[tuple[int, int]]:
        """
        Yields begin and end of the ranges between the pieces of a store that no file
        has, and of the rest of a last segment that was cut short.
        """
        if not self.is_store or not self.pieces:
            return
        for before, after in pairwise(self.pieces):
            if before.end < after.start:
                yield before.end, after.start
        last = self.pieces[-1]
        if self.segment_size is not None and last.size < self.segment_size:
            yield last.end, last.start + self.segment_size

    def base_of(self, offset: int) -> int:
        """
        Returns the base offset of the segment of an offset, as far as it is known.
        """
        for piece in self.pieces:
            if piece.start <= offset < piece.end:
                return piece.start
        size = self.segment_size
        return offset if size is None else offset - offset % size

    def frame(self, piece: SourcePiece) -> SegmentFrame:
        """
        Returns the segment of a piece, or one that it fits in.

        Raises:
            NotAStoreError: the piece is larger than any segment.
        """
        size = self.segment_size
        if size is not None and piece.end <= piece.start - piece.start % size + size:
            return SegmentFrame(piece.start - piece.start % size, size, is_known=True)
        for number in range(piece.start // SEGMENT_SIZE_MAX, piece.start + 1):
            least = max(-(-piece.end // (number + 1)), _SEGMENT_SIZE_MIN)
            most = min(piece.start // number if number else least, SEGMENT_SIZE_MAX)
            if least <= most:
                return SegmentFrame(number * most, most, is_known=False)
            if number * least > piece.start:
                break
        raise NotAStoreError(
            f"{piece.path}: {piece.size} bytes at offset {piece.start} fit no segment: "
            "is this a file of a commit log?",
            offset=piece.start,
            path=str(piece.path),
        )


def find_pieces(source: Path, *, may_be_empty: bool = False) -> PiecedLog:
    """
    Finds the files of a store's log, or of a ``.lost-`` directory.

    Args:
        source: its directory.
        may_be_empty: whether a store without a segment is one.

    Raises:
        NotAStoreError: there are none.
        StorageError: the system refused.
    """
    is_store = (source / COMMIT_LOG).is_dir()
    folder = source / COMMIT_LOG if is_store else source
    try:
        found = sorted(_pieces(folder))
    except FileNotFoundError:
        # The user gave the path.
        raise NotAStoreError(
            f"{source}: no such directory: check the path", path=str(source)
        ) from None
    except NotADirectoryError:
        # The user gave the path.
        raise NotAStoreError(
            f"{source}: not a directory: give a store, or a saved directory",
            path=str(source),
        ) from None
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("read", folder, error) from error
    if not found and not (is_store and may_be_empty):
        raise NotAStoreError(
            f"{source}: neither a store with segments in {COMMIT_LOG}/ nor a directory "
            "that was saved from one: it has no file with a name of 20 digits",
            path=str(source),
        )
    pieces = tuple(SourcePiece(path, start, size) for start, path, size in found)
    size = _segment_size(pieces, is_store=is_store)
    return PiecedLog(folder, pieces, size, is_store)


def _pieces(folder: Path) -> Iterator[tuple[int, Path, int]]:
    for name in os.listdir(folder):
        if len(name) == _DIGITS and name.isascii() and name.isdigit():
            path = folder / name
            try:
                status = path.stat()
            except FileNotFoundError:
                # Retention of a running writer deleted it.
                continue
            if stat.S_ISREG(status.st_mode) and status.st_size:
                yield int(name), path, status.st_size


def _segment_size(pieces: tuple[SourcePiece, ...], *, is_store: bool) -> int | None:
    """
    The size that all segments may have: that of the largest file, or what divides the
    distances of the files. A saved directory begins within a segment.
    """
    if not pieces:
        return None
    whole = pieces if is_store else pieces[1:]
    largest = max(piece.size for piece in pieces)
    if is_store and all(piece.start % largest == 0 for piece in whole):
        return largest if largest >= _SEGMENT_SIZE_MIN else None
    if len(whole) < 2:
        return None
    common = math.gcd(
        *(after.start - before.start for before, after in pairwise(whole))
    )
    fits = all(piece.end <= piece.start + common for piece in whole)
    is_base = whole[0].start % common == 0
    return common if fits and is_base and common <= SEGMENT_SIZE_MAX else None


@contextmanager
def open_piece(
    piece: SourcePiece, frame: SegmentFrame, scratch: Path | None = None
) -> Iterator[tuple[LogReader, list[tuple[int, int]]]]:
    """
    Opens a piece as a log of one segment.

    Args:
        piece: to open.
        frame: its segment.
        scratch: a directory for a copy; ``None``: the system's.

    Yields:
        The log, and begin and end of the ranges that could not be read: they are zero
        in it. The bytes around the piece are zero as well.

    Raises:
        StorageError: the system refused.
    """
    is_whole = piece.start == frame.base and piece.size == frame.size
    with tempfile.TemporaryDirectory(
        prefix="pystore-piece-", dir=None if is_whole else scratch
    ) as root:
        path = Path(root, COMMIT_LOG, segment_name(frame.base))
        path.parent.mkdir()
        unread: list[tuple[int, int]] = []
        if is_whole:
            path.symlink_to(piece.path.absolute())
        else:
            unread = _copy(piece, frame, path)
        with LogReader(root, LogOptions(segment_size=frame.size)) as log:
            yield log, unread


def _copy(
    piece: SourcePiece, frame: SegmentFrame, target: Path
) -> list[tuple[int, int]]:
    unread: list[tuple[int, int]] = []
    reader = writer = -1
    try:
        reader = os.open(piece.path, os.O_RDONLY)
        writer = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.ftruncate(writer, frame.size)
        at = 0
        while at < piece.size:
            size = min(_CHUNK, piece.size - at)
            for place, data in _read(reader, at, size):
                if data is None:
                    start = piece.start + place
                    unread.append((start, min(start + _PAGE, piece.end)))
                elif any(data):
                    os.pwrite(writer, data, piece.start - frame.base + place)
            at += size
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("copy", piece.path, error) from error
    finally:
        for descriptor in (reader, writer):
            if descriptor >= 0:
                os.close(descriptor)
    return unread


def _read(reader: int, at: int, size: int) -> Iterator[tuple[int, bytes | None]]:
    """
    Yields the bytes of a range; of one that cannot be read, page by page.
    """
    try:
        yield at, os.pread(reader, size, at)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        if size <= _PAGE:
            yield at, None
            return
        for place in range(at, at + size, _PAGE):
            yield from _read(reader, place, min(_PAGE, at + size - place))
