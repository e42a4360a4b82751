"""
Signs of a foreign writer: files that another program changed (A7, A15).

A Java broker may have opened the store since pystore closed it. Then the bounds in
``meta/`` are void, and the files of the other program are imported. Every file that
such a program changes is compared with the fingerprint and with the digests of the
exports in the metastore.

Rules: docs/crash-safety.md, A7 and A15.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pystore.epochs.file import read_epochs
from pystore.epochs.table import EpochTable
from pystore.errors import FormatError, NotAStoreError, PystoreError
from pystore.fs.atomic import storage_error
from pystore.fs.boot import StorePlace, place_of
from pystore.fs.layout import (
    ABORT,
    CHECKPOINT,
    EPOCH_FILE,
    EPOCH_FILE_BACKUP,
    IDENTITY_FILE,
    META_NAME,
    TEMPORARY_IDENTITY_FILE,
    segment_name,
    segment_path,
)
from pystore.fs.regular_file import read_regular
from pystore.metastore.database import MetaStore
from pystore.metastore.schema import CLEAN, EXPORTS, FINGERPRINT, INCARNATION, PLACE
from pystore.metastore.transaction import ReadTransaction
from pystore.metastore.values import Identity, StoreFingerprint
from pystore.rocketmq.abort_file import parse_abort
from pystore.rocketmq.checkpoint_file import CheckpointTimes, parse_checkpoint
from pystore.rocketmq.identity_file import parse_identity, parse_temporary_identity
from pystore.stored_names import stored

__all__ = [
    "EXPORT_NAMES",
    "Found",
    "Import",
    "changed_exports",
    "check_sizes",
    "find",
    "is_closed",
    "is_our_abort",
    "reasons_of",
]

EXPORT_NAMES = (ABORT, CHECKPOINT, EPOCH_FILE, IDENTITY_FILE, TEMPORARY_IDENTITY_FILE)
"""RocketMQ's files that pystore exports and compares."""


@stored
@dataclass(frozen=True, slots=True)
class Import:
    """
    The values in RocketMQ's files.

    Attributes:
        times: of ``checkpoint``; ``None``: no file.
        epochs: of the epoch file or its backup; ``None``: no file.
        identity: of the broker.
    """

    times: CheckpointTimes | None
    epochs: EpochTable | None
    identity: Identity


@stored
@dataclass(frozen=True, slots=True)
class Found:
    """
    The contents of the small files in a store's root.

    Attributes:
        root: the store.
        contents: of each of `EXPORT_NAMES`, and of the epoch file's backup;
            ``None``: no file.
    """

    root: Path
    contents: dict[str, bytes | None]

    @property
    def is_abort(self) -> bool:
        """
        Whether ``abort`` is there: the last program did not close the store.
        """
        return self.contents[ABORT] is not None

    def read(self) -> Import:
        """
        The values in the files.

        Raises:
            FormatError: a file exists and cannot be parsed (RMQ-R16).
        """
        times, identity, temporary = (
            self.contents[name]
            for name in (CHECKPOINT, IDENTITY_FILE, TEMPORARY_IDENTITY_FILE)
        )
        epochs = read_epochs(
            self.contents[EPOCH_FILE],
            self.contents[EPOCH_FILE_BACKUP],
            str(self.root / EPOCH_FILE),
        )
        broker: Identity = None
        if identity is not None:  # the final file wins (RMQ-R11)
            broker = parse_identity(identity, str(self.root / IDENTITY_FILE))
        elif temporary is not None:
            path = str(self.root / TEMPORARY_IDENTITY_FILE)
            broker = parse_temporary_identity(temporary, path)
        return Import(
            times=None
            if times is None
            else parse_checkpoint(times, str(self.root / CHECKPOINT)),
            epochs=None if epochs is None else epochs.table,
            identity=broker,
        )

    def readable(self) -> tuple[Found, list[FormatError]]:
        """
        These files without those that cannot be parsed, and one error for each of them.

        So the other files, the metadata and the log are judged beside a bad file.
        """
        found, errors = self, []
        while True:
            try:
                found.read()
            except FormatError as error:
                # Each round leaves one file out; the caller reports it.
                name = Path(error.path or "").name
                if found.contents.get(name) is None:
                    raise
                errors.append(error)
                out = {name, EPOCH_FILE_BACKUP} if name == EPOCH_FILE else {name}
                found = Found(self.root, found.contents | dict.fromkeys(out, None))
            else:
                return found, errors


def find(root: Path) -> Found:
    """
    Read the small files of a store's root.

    Raises:
        StorageError: a file exists and cannot be read.
    """
    names = (*EXPORT_NAMES, EPOCH_FILE_BACKUP)
    return Found(root, {name: _content(root / name) for name in names})


def _content(path: Path) -> bytes | None:
    try:
        return read_regular(path)
    except FileNotFoundError:
        # A missing file is no error (RMQ-R16).
        return None
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("read", path, error) from error


def check_sizes(
    root: Path, left: StoreFingerprint, segments: tuple[tuple[int, int], ...]
) -> None:
    """
    Check the sizes of the segments: no program changes them, so another size is damage.

    Raises:
        NotAStoreError: a segment has another size than in the fingerprint.
    """
    sizes = dict(segments)
    for base, size in left.segments:
        if sizes.get(base, size) != size:
            path = segment_path(root, base)
            raise NotAStoreError(
                f"{path}: {sizes[base]} bytes, but {size} when pystore left it: "
                "restore it from a replica",
                offset=base,
                path=str(path),
            )


def reasons_of(
    view: ReadTransaction,
    found: Found,
    segments: tuple[tuple[int, int], ...],
    queues_changed: list[str],
) -> list[str]:
    """
    The signs of a foreign writer, one line each; empty: there was none.

    Args:
        view: the metadata of the store.
        found: the small files.
        segments: (base offset, size) of each segment, ascending.
        queues_changed: differences of the consume queues; used after a clean close.
    """
    reasons = _of_place(view.read(PLACE), place_of(found.root))
    reasons.extend(changed_exports(view, found))
    left = view.read(FINGERPRINT)
    if view.read(CLEAN) is not None:
        last = left.segments[-1][0] if left.segments else -1
        # A missing segment is no sign of another program, but a loss (A16).
        new = [base for base, _ in segments if base > last]
        if new:
            reasons.append(f"segment {segment_name(new[0])} is new")
        reasons.extend(queues_changed)
    return reasons


def changed_exports(view: ReadTransaction, found: Found) -> list[str]:
    """
    The small files that pystore cannot have written, one line each.
    """
    exports = view.read(EXPORTS)
    reasons = []
    for name in EXPORT_NAMES:
        content = found.contents[name]
        if name == ABORT and is_our_abort(view, content):
            continue
        if not exports.is_ours(name, content):
            reasons.append(f"{name} {_change(content)}")
    return reasons


def _of_place(left: StorePlace, now: StorePlace) -> list[str]:
    if left == now:
        return []
    return ["the directory is a copy or a restore of the store (A15)"]


def is_our_abort(view: ReadTransaction, content: bytes | None) -> bool:
    """
    An ``abort`` with the stored incarnation is pystore's.
    """
    if content is None:
        return False
    return parse_abort(content).incarnation == view.read(INCARNATION).text


def is_closed(root: Path) -> bool:
    """
    Whether the last program closed the store: there is no ``abort``, or pystore closed
    it and left ``abort`` for RocketMQ (A11).
    """
    try:
        abort = read_regular(root / ABORT)
    except FileNotFoundError:
        return True
    except OSError:
        # A file that cannot be read is there; what it says is not known.
        return False
    try:
        with (
            MetaStore.open_read_only(root / META_NAME) as metastore,
            metastore.view() as view,
        ):
            return view.read(CLEAN) is not None and is_our_abort(view, abort)
    except PystoreError:
        # Without metadata that can be read, the file is another program's.
        return False


def _change(content: bytes | None) -> str:
    return "was removed" if content is None else "was written by another program"
