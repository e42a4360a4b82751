"""
Atomic replacement of small files: write, sync, rename, sync.

A file is written in a directory for temporaries of the same file system, synced, and
renamed to its name; then the name is synced. At every moment, also after a power
cut, the file has the old content or the new one.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pystore.errors import FullError, StorageError

__all__ = [
    "SYSTEM",
    "Calls",
    "remove_file",
    "replace_file",
    "storage_error",
    "sweep",
    "sync_descriptor",
    "sync_directory",
    "sync_file",
    "sync_tree",
]

_FULL = (errno.ENOSPC, errno.EDQUOT)


def sync_descriptor(descriptor: int) -> None:
    """
    Write the cached bytes of a file or directory to the disk.
    """
    if sys.platform == "darwin":
        import fcntl  # noqa: PLC0415

        # There fsync leaves the bytes in the cache of the drive.
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


@dataclass(frozen=True, slots=True)
class Calls:
    """
    The system calls of a replacement, so that a test can fail each of them.
    """

    open: Callable[..., int] = os.open
    write: Callable[[int, memoryview], int] = os.write
    sync: Callable[[int], None] = sync_descriptor
    rename: Callable[[Path, Path], None] = os.rename
    unlink: Callable[[Path], None] = os.unlink


SYSTEM = Calls()


def storage_error(doing: str, path: Path, error: OSError) -> StorageError:
    """
    The `StorageError` for an `OSError`: one line with path and reason.

    Args:
        doing: what failed, as in "cannot <doing> <path>".
        path: of the file or directory.
        error: of the system.
    """
    number = error.errno or 0
    text = f"cannot {doing} {path}: {os.strerror(number)}"
    if number in _FULL:
        return FullError(
            f"{text}: make space, then try again", errno=number, path=str(path)
        )
    return StorageError(text, errno=number, path=str(path))


def sync_directory(path: Path, calls: Calls = SYSTEM) -> None:
    """
    Make the names in a directory durable.

    Raises:
        StorageError: the system refused.
    """
    try:
        descriptor = calls.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            calls.sync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("sync directory", path, error) from error


def sync_file(path: Path, calls: Calls = SYSTEM) -> None:
    """
    Put the content of a file onto the disk.

    Raises:
        StorageError: the system refused.
    """
    try:
        # A pipe of that name is not waited for.
        descriptor = calls.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            calls.sync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        # The caller gets the path with it.
        raise storage_error("sync", path, error) from error


def sync_tree(top: Path, calls: Calls = SYSTEM) -> None:
    """
    Put every file below a directory onto the disk, then the directories' names.

    Symbolic links are not followed.

    Raises:
        StorageError: the system refused.
    """
    for folder, _, names in os.walk(top, topdown=False):
        for path in (Path(folder, name) for name in names):
            if not path.is_symlink():
                sync_file(path, calls)
        sync_directory(Path(folder), calls)


def _write_whole(path: Path, content: bytes, calls: Calls) -> None:
    descriptor = calls.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[calls.write(descriptor, rest) :]
        calls.sync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(
    path: Path, content: bytes, temporary: Path, calls: Calls = SYSTEM
) -> None:
    """
    Replace the content of a file, atomically and durably.

    One thread at a time for one ``path``.

    Args:
        path: of the file; it need not exist.
        content: of the whole file.
        temporary: a directory of the same file system, for the file until its rename.
        calls: the system calls.

    Raises:
        FullError: no space; the old content is untouched.
        StorageError: the system refused. The old content is untouched, unless
            the sync of the directory failed: then the file has the new content, and
            a power cut may bring back the old one.
    """
    draft = temporary / path.name
    try:
        _write_whole(draft, content, calls)
        calls.rename(draft, path)
    except OSError as error:
        _forget(draft, calls)
        # The caller knows the file, not the draft.
        raise storage_error("replace", path, error) from error
    sync_directory(path.parent, calls)


def _forget(draft: Path, calls: Calls) -> None:
    try:
        calls.unlink(draft)
    except OSError:
        # The caller gets the first error; `sweep` removes the draft later.
        return


def remove_file(path: Path, calls: Calls = SYSTEM) -> bool:
    """
    Remove a file durably.

    Returns:
        Whether the file existed.

    Raises:
        StorageError: the system refused.
    """
    try:
        calls.unlink(path)
    except FileNotFoundError:
        # An earlier removal may not be synced.
        sync_directory(path.parent, calls)
        return False
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("remove", path, error) from error
    sync_directory(path.parent, calls)
    return True


def sweep(
    temporary: Path,
    calls: Calls = SYSTEM,
    *,
    keeps: Callable[[Path], bool] = lambda _: False,
) -> list[str]:
    """
    Remove the drafts that a killed process left.

    Args:
        temporary: the directory.
        calls: of the system.
        keeps: whether a draft stays.

    Returns:
        The names removed, in order.

    Raises:
        StorageError: the system refused.
    """
    try:
        names = sorted(os.listdir(temporary))
        names = [one for one in names if not keeps(temporary / one)]
        for name in names:
            calls.unlink(temporary / name)
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("sweep", temporary, error) from error
    return names
