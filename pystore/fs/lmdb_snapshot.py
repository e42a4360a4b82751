"""
One state of ``data.mdb``, copied while another process may write it.

A reader that opened LMDB's own lock file could make LMDB start its mutexes anew under
a running writer, and would drop the locks of a writer in its own process. So a reader
opens neither: it copies the pages of one state, and opens the copy.

LMDB writes a state's pages to places that neither the state before it nor the one
before that uses (a page that transaction N + 1 gives up is used again by N + 3 at the
earliest). So the pages of state N are whole if the file shows at most N + 1 after the
copy, and the copy gets the two root pages from before it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pystore.errors import BusyError, FormatError
from pystore.fs.atomic import storage_error
from pystore.fs.lmdb_file import PAGE_BYTES_MAX, LmdbRoots, check_data_file, damage
from pystore.fs.regular_file import open_regular

__all__ = ["snapshot"]

_ATTEMPTS = 64
_PIECE = 1 << 20


@contextlib.contextmanager
def snapshot(path: Path) -> Iterator[Path]:
    """
    A checked copy of one state of a data file, until the block ends. It takes no lock.

    Args:
        path: of ``data.mdb``.

    Yields:
        The path of a file that LMDB can open, with ``lock=False``.

    Raises:
        FormatError: the file is missing, empty, short, damaged, or of LMDB 1.0.
        BusyError: it changed too fast to be copied.
        StorageError: the system refused.
    """
    with contextlib.ExitStack() as stack:
        yield _checked_copy(path, stack)


def _checked_copy(path: Path, stack: contextlib.ExitStack) -> Path:
    """
    The copy, which lasts as long as the stack.
    """
    problem: FormatError | None = None
    for _ in range(_ATTEMPTS):
        content, is_still = _read(path)
        if content is None:
            problem = None
            continue
        with contextlib.ExitStack() as attempt:
            copy = _written(content, path, attempt)
            try:
                check_data_file(copy, named=path)
            except FormatError as error:
                # A root that was read while it was written looks like damage. In a
                # file that did not change, it is.
                if is_still:
                    raise
                problem = error
                continue
            stack.push(attempt.pop_all())
            return copy
    if problem is not None:
        raise problem
    raise BusyError(
        f"{path} is changed by its writer too fast to be read: try again",
        path=str(path),
    )


def _read(path: Path) -> tuple[bytes | None, bool]:
    """
    The pages of one state, or ``None`` if they may be of several, and whether the file
    did not change meanwhile.
    """
    try:
        descriptor = open_regular(path, os.O_RDONLY)
    except FileNotFoundError:
        # Only an absent meta/ means a new store (A14).
        raise damage(path, "the file is missing") from None
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("read", path, error) from error
    try:
        size = os.fstat(descriptor).st_size
        roots = LmdbRoots.read(descriptor)
        head = os.pread(descriptor, 2 * min(roots.page_bytes, PAGE_BYTES_MAX), 0)
        # A root of nonsense names any size: what is beyond the file is not read.
        used = min(roots.used_bytes, size)
        rest = [
            os.pread(descriptor, min(_PIECE, used - at), at)
            for at in range(len(head), used, _PIECE)
        ]
        after = LmdbRoots.read(descriptor)
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("read", path, error) from error
    finally:
        os.close(descriptor)
    now = LmdbRoots.of(head)
    if now != roots or max(after.transactions) > max(roots.transactions) + 1:
        return None, False
    return b"".join((head, *rest)), after == roots


def _written(content: bytes, path: Path, stack: contextlib.ExitStack) -> Path:
    """
    A file with that content: in memory, where the system has such files.
    """
    try:
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("pystore-metastore")
            stack.callback(os.close, descriptor)
            copy = Path(f"/proc/self/fd/{descriptor}")
        else:
            descriptor, name = tempfile.mkstemp(prefix="pystore-metastore-")
            stack.callback(os.unlink, name)
            stack.callback(os.close, descriptor)
            copy = Path(name)
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError as error:
        # The caller knows the file, not its copy.
        raise storage_error("copy", path, error) from error
    return copy
