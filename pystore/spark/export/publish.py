"""
Publishes a run by one rename: its files and its commit file.

Before that they are in a hidden directory. The next run removes what a killed run left
there. There is nothing to complete or to undo.
"""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pystore.core.lock import Lock
from pystore.errors import FormatError, InvalidError, LockedError, StorageError
from pystore.fs.atomic import storage_error, sync_descriptor, sync_directory
from pystore.spark.export.commit import Commit, format_commit, parse_commit
from pystore.spark.export.layout import (
    HIDDEN,
    LOCK,
    RECORD,
    run_name,
    run_number,
    staging_folder,
)
from pystore.spark.plan.paths import store_around

__all__ = ["last_commit", "lock_export", "move_file", "publish", "staging"]


@contextmanager
def lock_export(into: Path) -> Iterator[None]:
    """
    Makes the exported directory if it is missing, and locks it for one run.

    Raises:
        InvalidError: the directory is no export, or is in a store.
        LockedError: another run exports into it.
        StorageError: the system refused.
    """
    _require_ours(into)
    hidden = into / HIDDEN
    try:
        staging_folder(into).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        # The caller gets the path with it.
        raise storage_error("make", hidden, error) from error
    for folder in (hidden, into, into.parent):
        sync_directory(folder)
    try:
        lock = Lock(hidden / LOCK)
    except LockedError as error:
        # The lock's own message is about a store.
        raise LockedError(
            f"{into}: another export writes here: wait until it ends, or give another "
            "directory",
            path=str(into),
        ) from error
    with lock:
        for leftover in staging_folder(into).iterdir():
            # A late task of a killed run may still write: its files stay hidden.
            shutil.rmtree(leftover, ignore_errors=True)
        yield


def _require_ours(into: Path) -> None:
    store = store_around(into)
    if store is not None:
        raise InvalidError(
            f"{into}: this directory is in the store {store}, and RocketMQ would use "
            "it as its own: give a directory outside"
        )
    if into.is_dir() and not (into / HIDDEN).is_dir() and any(into.iterdir()):
        raise InvalidError(
            f"{into}: not empty, and not an export: give a new or an empty directory"
        )


def last_commit(into: Path) -> Commit | None:
    """
    Returns the commit of the newest run; ``None``: there is no run.

    Raises:
        FormatError: the commit file is invalid.
        StorageError: the system refused.
    """
    try:
        numbers = [run_number(name) for name in os.listdir(into)]
        newest = max((number for number in numbers if number), default=None)
        if newest is None:
            return None
        path = into / run_name(newest) / RECORD
        commit = parse_commit(path.read_bytes(), str(path))
    except OSError as error:
        # A run without its commit file is not ours, or the file was deleted.
        raise storage_error("read the newest run in", into, error) from error
    if commit.run != newest:
        raise FormatError(f"{path}: the file is of run {commit.run}: restore it")
    return commit


@contextmanager
def staging(into: Path) -> Iterator[tuple[Path, Path]]:
    """
    Yields two folders, for the attempts of tasks and for the tree of the run, and
    removes them afterwards.

    Raises:
        StorageError: the system refused.
    """
    root = staging_folder(into) / uuid.uuid4().hex
    attempts, tree = root / "attempts", root / "tree"
    try:
        for folder in (root, attempts, tree):
            folder.mkdir()
    except OSError as error:
        # The caller gets the path with it.
        raise storage_error("make", root, error) from error
    try:
        yield attempts, tree
    finally:
        # The next run removes what a late task still writes.
        shutil.rmtree(root, ignore_errors=True)


def move_file(written: Path, size: int, place: Path) -> None:
    """
    Moves a file of an attempt into the tree of the run.

    Raises:
        StorageError: the file is missing, or has another size.
    """
    try:
        found = written.stat().st_size
        place.parent.mkdir(parents=True, exist_ok=True)
        os.rename(written, place)
    except OSError as error:
        # A worker wrote the file, but this host cannot find it.
        raise storage_error(
            "move, which needs the directory under the same path on every host,",
            written,
            error,
        ) from error
    if found != size:
        raise StorageError(
            f"{written}: {found} bytes here, but a worker wrote {size}: every host "
            "must have the same directory under this path",
            path=str(written),
        )


def publish(into: Path, tree: Path, commit: Commit) -> Path:
    """
    Makes a run visible, and durable.

    Args:
        into: the exported directory.
        tree: its files, all of them synced.
        commit: of the run.

    Raises:
        LockedError: another export published a run of this number.
        StorageError: the system refused. Nothing was published, unless the text
            is about a directory that could not be synced.
    """
    place = into / run_name(commit.run)
    try:
        with (tree / RECORD).open("xb") as file:
            file.write(format_commit(commit))
            file.flush()
            sync_descriptor(file.fileno())
        for folder, _, _ in os.walk(tree, topdown=False):
            sync_directory(Path(folder))
        os.rename(tree, place)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            # On a file system whose locks do not reach other hosts.
            raise LockedError(
                f"{place}: another export made this run meanwhile: run again",
                path=str(place),
            ) from error
        # The caller gets the path with it.
        raise storage_error("publish", place, error) from error
    sync_directory(into)
    return place
