"""
A run becomes visible by one rename: its files, and the record of what they hold.

Until then all of it lies in a hidden directory. A killed run leaves rubbish there,
which the next one removes; there is nothing to finish or to undo.
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
from pystore.fs.layout import is_store
from pystore.spark.export.commit import Commit, format_commit, parse_commit
from pystore.spark.export.layout import (
    HIDDEN,
    LOCK,
    RECORD,
    run_name,
    run_number,
    staging_folder,
)

__all__ = ["last_commit", "lock_export", "move_file", "publish", "staging"]


@contextmanager
def lock_export(into: Path) -> Iterator[None]:
    """
    Makes an exported directory if there is none, and lets nobody else export there.

    Raises:
        InvalidError: the directory is something else, or within a store.
        LockedError: another run is at work.
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
        # Said of a directory that is no store.
        raise LockedError(
            f"{into}: another export writes here: wait for it, or give another "
            "directory",
            path=str(into),
        ) from error
    with lock:
        for rubbish in staging_folder(into).iterdir():
            # What a task of a dead run still holds may stay: nobody sees it.
            shutil.rmtree(rubbish, ignore_errors=True)
        yield


def _require_ours(into: Path) -> None:
    for above in (into, *into.parents):
        if is_store(above):
            raise InvalidError(
                f"{into}: it lies in the store {above}, where RocketMQ would take it "
                "for its own: give a directory elsewhere"
            )
    if into.is_dir() and not (into / HIDDEN).is_dir() and any(into.iterdir()):
        raise InvalidError(
            f"{into}: not empty, and no export: give a new or an empty directory"
        )


def last_commit(into: Path) -> Commit | None:
    """
    Returns what the newest run says.

    Raises:
        FormatError: it cannot be read.
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
        # A run without its record was not made by us, or somebody took it away.
        raise storage_error("read what was exported from", into, error) from error
    if commit.run != newest:
        raise FormatError(f"{path}: it is of run {commit.run}: restore it")
    return commit


@contextmanager
def staging(into: Path) -> Iterator[tuple[Path, Path]]:
    """
    Yields two folders that are gone afterwards: for the attempts of tasks, and for
    the tree of the run.

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
        # What is left, or comes while a late task ends, goes with the next run.
        shutil.rmtree(root, ignore_errors=True)


def move_file(written: Path, size: int, place: Path) -> None:
    """
    Takes a file of an attempt into the tree of the run.

    Raises:
        StorageError: it is not there as it was told.
    """
    try:
        found = written.stat().st_size
        place.parent.mkdir(parents=True, exist_ok=True)
        os.rename(written, place)
    except OSError as error:
        # Told by a worker, so it was there, and not here.
        raise storage_error(
            "take over, which needs the directory under the same path on every host,",
            written,
            error,
        ) from error
    if found != size:
        raise StorageError(
            f"{written}: {found} bytes, and a worker wrote {size}: every host must see "
            "the same directory",
            path=str(written),
        )


def publish(into: Path, tree: Path, commit: Commit) -> Path:
    """
    Makes a run visible, and durable.

    Args:
        into: the exported directory.
        tree: its files, all of them synced.
        commit: what it holds.

    Raises:
        LockedError: somebody else published a run of this number.
        StorageError: the system refused; nothing was published, unless the text says
            that a directory could not be synced.
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
                f"{place}: another export made it meanwhile: run again", path=str(place)
            ) from error
        # The caller gets the path with it.
        raise storage_error("publish", place, error) from error
    sync_directory(into)
    return place
