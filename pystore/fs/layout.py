"""
The names and paths of a store's files, and the check of its root.

A store's root is RocketMQ's: only `META_NAME` is pystore's own.

Source: formats 1, 2, 5; docs/format.md.
"""

from __future__ import annotations

import os
from pathlib import Path

from pystore.errors import NotAStoreError
from pystore.fs.atomic import storage_error, sync_directory

# Under the root: RocketMQ's folders and small files, then pystore's folder and its
# content.
COMMIT_LOG = "commitlog"
CONSUME_QUEUE = "consumequeue"
INDEX = "index"

ABORT = "abort"
CHECKPOINT = "checkpoint"
EPOCH_FILE = "epochFileCheckpoint"
EPOCH_FILE_BACKUP = "epochFileCheckpoint.bak"
IDENTITY_FILE = "brokerIdentity"
LOCK = "lock"
TEMPORARY_IDENTITY_FILE = "brokerIdentity-temp"

META_NAME = "meta"
META_DRAFT_NAME = "meta.new"
LIVE_NAME = "live"
SEALS_NAME = "seals"
TEMPORARY_NAME = "tmp"

META_ADVICE = (
    f"restore {META_NAME}/ from a backup, or move {META_NAME}/ away and open again"
)
"""The remedy for a damaged ``meta/``."""

LIVE_FORMAT = 1
"""The format of ``meta/live``."""

_NO_STORE = f"not a store: it has no {COMMIT_LOG}/"
_NO_DIRECTORY = "no such directory: check the path"
_NOT_A_DIRECTORY = "not a directory: give the root of a store"


def segment_name(base: int) -> str:
    """
    Returns the name of the file that begins at offset *base*, of the log or a queue.
    """
    return f"{base:020d}"


def segment_path(root: str | os.PathLike[str], base: int) -> Path:
    """
    Returns the file of the log's segment that begins at offset *base*.
    """
    return Path(root) / COMMIT_LOG / segment_name(base)


def is_store(root: Path) -> bool:
    """
    Whether *root* has a commit log.
    """
    return (root / COMMIT_LOG).is_dir()


def prepare_directory(root: Path, *, create: bool) -> None:
    """
    Make sure that *root* is a store, or becomes one.

    Raises:
        NotAStoreError: missing, no directory, or something else is in it.
        StorageError: the system refused.
    """
    if not root.exists():
        if not create:
            raise NotAStoreError(f"{root}: {_NO_DIRECTORY}", path=str(root))
        if not root.parent.exists():
            raise NotAStoreError(
                f"{root.parent}: no such directory: create it, or check the path",
                path=str(root.parent),
            )
        _make_directory(root)
    if not root.is_dir():
        raise NotAStoreError(f"{root}: {_NOT_A_DIRECTORY}", path=str(root))
    if is_store(root) or (root / META_NAME).is_dir():
        return
    others = sorted(set(os.listdir(root)) - {LOCK})
    if others or not create:
        what = f"holds {others[0]!r}" if others else "is empty"
        raise NotAStoreError(
            f"{root}: {_NO_STORE} and {what}: "
            "give the root of a store, or an empty directory",
            path=str(root),
        )
    _make_directory(root / COMMIT_LOG)


def _make_directory(path: Path) -> None:
    try:
        path.mkdir()
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("create", path, error) from error
    sync_directory(path.parent)


def require_store(root: Path) -> None:
    """
    Make sure that *root* is a store.

    Raises:
        NotAStoreError: it is none.
    """
    if is_store(root):
        return
    what = _NO_DIRECTORY
    if root.is_dir():
        what = f"{_NO_STORE}: give the root of a store"
    elif root.exists():
        what = _NOT_A_DIRECTORY
    raise NotAStoreError(f"{root}: {what}", path=str(root))
