"""
Some segments of a store, opened as a log of their own.

A `LogReader` opens all segments of a log, and refuses a log with a missing segment.
A check or a repair needs one segment, or the segments behind the missing one, or a file
that is no segment of the store yet. So it makes links to them in a temporary folder.
The store is not changed.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pystore.core.log_reader import LogReader
from pystore.core.options import LogOptions
from pystore.errors import NotAStoreError, PystoreError
from pystore.fs.atomic import storage_error
from pystore.fs.layout import COMMIT_LOG, segment_name, segment_path

__all__ = ["open_files", "open_view", "segment_name"]

# Making a folder on a busy disk takes as long as reading a cached segment.
_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@contextmanager
def open_view(
    root: str | Path, bases: Iterable[int], options: LogOptions | None = None
) -> Iterator[LogReader]:
    """
    Opens these segments as a log; none may be missing between them. Errors name the
    files of the store, not the links to them.

    Args:
        root: of the store.
        bases: of the segments.
        options: of the log.

    Raises:
        NotAStoreError: a segment was deleted, or the files are no segments.
        StorageError: the system refused.
    """
    root = Path(root).absolute()
    files = {base: segment_path(root, base) for base in bases}
    for base, path in files.items():
        if not path.exists():
            raise NotAStoreError(
                f"{path}: the segment was deleted", offset=base, path=str(path)
            )
    with open_files(root, files, options) as log:
        yield log


@contextmanager
def open_files(
    root: Path, files: Mapping[int, Path], options: LogOptions | None = None
) -> Iterator[LogReader]:
    """
    Opens files as the segments of a log.

    Args:
        root: what errors name as the log: the store that the files are of.
        files: by the base offset of the segment; no segment is missing between them.
        options: of the log.

    Raises:
        NotAStoreError: the files are no segments.
        StorageError: the system refused.
    """
    with ExitStack() as stack:
        folder = _links(files, stack)
        try:
            with LogReader(folder, options) as log:
                yield log
        except PystoreError as error:
            # The folder is removed before a caller reads the error.
            _name_store(error, folder, str(root))
            raise


def _links(files: Mapping[int, Path], stack: ExitStack) -> str:
    """
    Makes a folder with a log of links, which goes with the stack.
    """
    try:
        folder = stack.enter_context(
            tempfile.TemporaryDirectory(
                prefix="pystore-view-", dir=_MEMORY, ignore_cleanup_errors=True
            )
        )
        links = Path(folder, COMMIT_LOG)
        links.mkdir()
        for base, path in files.items():
            os.symlink(path.absolute(), links / segment_name(base))
    except OSError as error:
        # The error of the system does not name the folder.
        where = Path(_MEMORY or tempfile.gettempdir())
        raise storage_error("make links in", where, error) from error
    return folder


def _name_store(error: PystoreError, folder: str, root: str) -> None:
    error.args = (str(error).replace(folder, root),)
    if error.path is not None:
        error.path = error.path.replace(folder, root)
