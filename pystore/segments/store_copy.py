"""
One copy of a log, looked at segment by segment and by path.

It makes no difference whether a program has the store open, whether it was closed, or
whether it cannot be opened for a hole: each file is looked at alone, and digests are of
the bytes that the disk has.

Source: docs/autorecovery.md, evidence; A22 (docs/crash-safety.md).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from stat import S_ISREG

from pystore.bindings.ffi import Check
from pystore.core.lock import running_writer
from pystore.core.options import LogOptions
from pystore.core.segment_view import open_view
from pystore.damage.past_damage import rows_past_damage
from pystore.epochs.table import EpochTable
from pystore.errors import (
    CorruptError,
    LockedError,
    NotAStoreError,
    PystoreError,
    StorageError,
)
from pystore.fs.atomic import storage_error
from pystore.fs.disk_read import read_disk
from pystore.fs.layout import ABORT, META_NAME, SEALS_NAME, segment_path
from pystore.fs.regular_file import read_regular
from pystore.metastore.database import MetaStore
from pystore.metastore.schema import BOUNDS, CUT, EPOCHS, IDENTITY
from pystore.metastore.transaction import ReadTransaction
from pystore.metastore.values import Identity
from pystore.recovery.foreign_writer import find, reasons_of
from pystore.rocketmq.abort_file import parse_abort
from pystore.rocketmq.identity_file import BrokerIdentity, TemporaryIdentity
from pystore.seals import BLOCK_BYTES, Seal, block_digest, read_seal
from pystore.segments.copy import CopyFacts, block_count
from pystore.store.open_reader import open_reader

__all__ = ["StoreCopy", "file_problem"]

_Metadata = tuple[EpochTable, BrokerIdentity | None, int, int | None, str]
_CHECKS = Check.BODY | Check.PROPERTY | Check.OFFSET


def file_problem(path: str | Path, size: int) -> str:
    """
    Returns why a file cannot be read as a whole segment; empty: it can. None of its
    bytes is read.

    Args:
        path: of the file.
        size: of a segment, in bytes.
    """
    try:
        found = os.stat(path)
        if not S_ISREG(found.st_mode):
            return "it is no regular file"
        if found.st_size != size:
            return f"the file has {found.st_size} bytes, and not {size}"
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except FileNotFoundError:
        return "the file is missing"
    except OSError as error:
        # What the system says is the answer.
        return f"the file cannot be opened: {error.strerror}"
    return ""


class StoreCopy:
    """
    The segments of one store. For one thread; nothing is kept open.

    Args:
        root: of the store.
        on_read: called with the bytes of each block that was read, to wait as long as
            the rate of the host wants.

    Attributes:
        root: of the store.
        name: the same, for messages.
        facts: as of now.

    Raises:
        LockedError: a broker of RocketMQ has the store open: it proves nothing.
        PystoreError: it is no store, or its metadata cannot be read.
    """

    def __init__(
        self, root: Path, on_read: Callable[[int], object] = lambda _: None
    ) -> None:
        self.root = root
        self._on_read = on_read
        self.name = str(root)
        _refuse_running_rocketmq(root)
        log, _ = open_reader(root, LogOptions(serves_ill=True))
        with log:
            ends = log.ends()
        epochs, identity, confirmed, intent, doubt = _metadata_of(root)
        end = ends.published_end
        if intent is not None:
            # What is above is no part of the log: it is being removed.
            end = max(ends.min_offset, min(end, intent))
        settled = end
        confirmed = max(confirmed, ends.confirm_offset)
        # A stopped broker of RocketMQ may not have told its confirm offset.
        if identity is not None and (confirmed or (root / META_NAME).is_dir()):
            settled = min(confirmed, end)
        self.facts = CopyFacts(
            ends.min_offset, end, settled, ends.segment_size, epochs, identity, doubt
        )

    def problem(self, base: int) -> str:
        """
        As `pystore.segments.copy.LogCopy.problem`.
        """
        return file_problem(segment_path(self.root, base), self.facts.segment_size)

    def seal(self, base: int) -> Seal | None:
        """
        As `pystore.segments.copy.LogCopy.seal`.
        """
        try:
            return read_seal(self.root / META_NAME / SEALS_NAME, base)
        except PystoreError:
            # A seal that cannot be read proves nothing.
            return None

    def block(self, base: int, index: int) -> bytes:
        """
        As `pystore.segments.copy.LogCopy.block`.
        """
        _refuse_running_rocketmq(self.root)
        path = segment_path(self.root, base)
        try:
            found = read_disk(path, index * BLOCK_BYTES, BLOCK_BYTES)
        except OSError as error:
            # The error of the system does not name the path.
            raise storage_error("read", path, error) from error
        self._on_read(len(found))
        return found

    def digests(self, base: int, indexes: Iterable[int]) -> dict[int, int | None]:
        """
        As `pystore.segments.copy.LogCopy.digests`.
        """
        found: dict[int, int | None] = {}
        for index in indexes:
            try:
                found[index] = block_digest([self.block(base, index)])
            except StorageError:
                # That it cannot be read is the answer.
                found[index] = None
        return found

    def damaged_blocks(self, base: int) -> set[int]:
        """
        As `pystore.segments.copy.LogCopy.damaged_blocks`.
        """
        found: set[int] = set()
        end = base + self.facts.segment_size

        def note(error: CorruptError, behind: int) -> None:
            low = (error.offset if error.offset is not None else base) - base
            found.update(range(low // BLOCK_BYTES, -(-(behind - base) // BLOCK_BYTES)))

        try:
            with open_view(self.root, [base]) as view:
                for _ in rows_past_damage(
                    view, base, end, _CHECKS, rows=65536, on_damage=note
                ):
                    pass
        except NotAStoreError:
            # No whole file: none of its blocks proves itself.
            return set(range(block_count(self.facts.segment_size)))
        return found


def _refuse_running_rocketmq(root: Path) -> None:
    """
    What such a broker holds may be cut by its next master, or be left by a cut
    (RMQ-R167).
    """
    pid = running_writer(root)
    if pid is None or pid == os.getpid():
        return
    try:
        note = parse_abort(read_regular(root / ABORT))
    except FileNotFoundError:
        # Closed meanwhile.
        return
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("read", root / ABORT, error) from error
    if note.incarnation is None:
        raise LockedError(
            f"{root}: a broker of RocketMQ (process {pid}) has it open: what it holds "
            "may still be cut: stop it, or name another copy",
            path=str(root),
        )


def _metadata_of(root: Path) -> _Metadata:
    """
    The epochs, the identity and the stored confirm offset of a store, the offset of an
    unfinished cut, and why its epochs may not be those of its bytes.
    """
    if not (root / META_NAME).is_dir():
        found = find(root).read()
        times = found.times
        confirmed = times.confirm_offset if times is not None else 0
        epochs = found.epochs or EpochTable()
        return epochs, _final(found.identity), confirmed, None, "it has no metadata"
    with (
        MetaStore.open_read_only(root / META_NAME) as metastore,
        metastore.view() as view,
    ):
        identity = _final(view.read(IDENTITY))
        confirmed, intent = view.read(BOUNDS).confirm_offset, view.read(CUT).intent
        return view.read(EPOCHS), identity, confirmed, intent, _doubt_of(view, root)


def _doubt_of(view: ReadTransaction, root: Path) -> str:
    try:
        return "; ".join(reasons_of(view, find(root), (), []))
    except PystoreError as error:
        # A small file that cannot be read: it may be another program's.
        return str(error)


def _final(identity: Identity) -> BrokerIdentity | None:
    if isinstance(identity, TemporaryIdentity):
        return identity.identity
    return identity
