"""
The names and paths of a store's files, and the check of its root.

A store's root is RocketMQ's: only `META_NAME` is pystore's own.

Source: formats 1, 2, 5; docs/format.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pystore.errors import InvalidError, NotAStoreError
from pystore.fs.atomic import storage_error, sync_directory
from pystore.fs.boot import mount_of

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
SEGMENT_TEMPORARY_NAME = ".pystore-tmp"
"""A directory in ``commitlog/``, where that is on another file system than ``meta/``.
RocketMQ ignores directories there."""

META_ADVICE = (
    f"restore {META_NAME}/ from a backup, or move {META_NAME}/ away and open again"
)
"""The remedy for a damaged ``meta/``."""

PULL_SUFFIX = ".pull"
"""Of a segment that a repair copies, among the temporary files."""

_PULL_MS = 24 * 3_600_000

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


def store_root(path: str | os.PathLike[str]) -> Path:
    """
    Returns the absolute path of a store that a caller gave.

    Raises:
        InvalidError: no path, or an empty one, which would be the current directory.
    """
    try:
        text = os.fspath(path)
    except TypeError:
        text = None
    if not isinstance(text, str):
        raise InvalidError(f"path: {path!r} is neither a string nor a Path")
    if not text or "\0" in text:
        raise InvalidError(f"path: {text!r} names no directory: give that of the store")
    # A later change of the working directory leads to no other store (A18).
    return Path(text).absolute()


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


def prepare_meta_directories(root: Path) -> None:
    """
    Make the directories in ``meta/`` that tools lose which copy no empty ones.

    Raises:
        StorageError: the system refused, or a file has the name.
    """
    for name in (SEALS_NAME, TEMPORARY_NAME):
        path = root / META_NAME / name
        if not path.is_dir():
            _make_directory(path)


def segment_temporary(root: Path) -> Path:
    """
    The directory in which segments are made before they have their name: it must be on
    their file system, and ``commitlog/`` may be on another one than ``meta/``.

    Made if it is missing; also of a store without ``meta/``, which a repair gives no
    other folder.

    Raises:
        StorageError: the system refused.
    """
    usual, log = root / META_NAME / TEMPORARY_NAME, root / COMMIT_LOG
    # A store of RocketMQ has none of the two; a file with the name is refused.
    if os.path.lexists(usual) and mount_of(usual) == mount_of(log):
        return usual
    other = log / SEGMENT_TEMPORARY_NAME
    if not other.is_dir():
        _make_directory(other)
    return other


def is_wanted_pull(path: Path, now_ms: int) -> bool:
    """
    Whether a file is a segment that a repair copies and that was written to less than a
    day ago.

    Args:
        path: of the file.
        now_ms: the time, ms since 1970.
    """
    if path.suffix != PULL_SUFFIX:
        return False
    try:
        written_ms = path.stat().st_mtime_ns // 1_000_000
    except FileNotFoundError:
        # It became a segment meanwhile.
        return False
    return now_ms - written_ms < _PULL_MS


@contextmanager
def queue_temporary(root: Path) -> Iterator[Path]:
    """
    The directory in which whole queue files are made before they have their name, on
    the file system of ``consumequeue/``. It is gone afterwards: RocketMQ would take it
    for a topic, though for one without queues.

    Raises:
        StorageError: the system refused.
    """
    folder = root / CONSUME_QUEUE / SEGMENT_TEMPORARY_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.iterdir():
            left.unlink()
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("prepare", folder, error) from error
    try:
        yield folder
    finally:
        with suppress(OSError):
            # What is left in it goes at the next use.
            folder.rmdir()


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
