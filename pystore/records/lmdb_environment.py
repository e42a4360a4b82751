"""
An open LMDB directory: one per process, shared by its stores.

A process may open an LMDB directory only once. A child that was forked while it was
open may not open it: it gets a `ForkedError`. A child that was forked before opens it
like any other process.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb

from pystore.errors import (
    ForkedError,
    FormatError,
    FullError,
    NotAStoreError,
    PystoreError,
    StorageError,
    UnknownOutcomeError,
)
from pystore.fs.atomic import SYSTEM, Calls, storage_error, sync_directory
from pystore.fs.lmdb_claim import LmdbClaim
from pystore.fs.lmdb_file import allocate_lock_file
from pystore.fs.lmdb_snapshot import snapshot
from pystore.records.lmdb_owners import LmdbOwners
from pystore.records.lmdb_row import NO_HOLDER, Row
from pystore.records.lmdb_spaces import note_changes
from pystore.records.record_store import StoreSpace

__all__ = ["MAP_BYTES", "LmdbEnvironment", "LmdbRead"]

MAP_BYTES = 1 << 30
"""The largest size of an environment: address space, not memory."""

_DATA = "data.mdb"
_LOCKS = "lock.mdb"
_OWNERS = "owners.lock"
_LAST_OWNER = b"\0owner"  # below every key of a record

_mutex = threading.Lock()
_open: dict[Path, LmdbEnvironment] = {}
_orphans: list[LmdbEnvironment] = []  # the parent's: a child must not close them


def _after_fork() -> None:
    global _mutex  # noqa: PLW0603 - another thread may have held the parent's
    _mutex = threading.Lock()
    for space in _open.values():
        space.is_forked = True
    _orphans.extend(_open.values())
    _open.clear()


os.register_at_fork(after_in_child=_after_fork)


class LmdbRead:
    """
    The records of one transaction: one consistent state, with its holders. One thread.

    Attributes:
        transaction: of LMDB.
    """

    def __init__(
        self, transaction: lmdb.Transaction, owners: LmdbOwners, where: str
    ) -> None:
        self.transaction = transaction
        self._owners = owners
        self._where = where
        self._alive: dict[int, bool] = {NO_HOLDER: True}

    def is_there(self, row: Row) -> bool:
        """
        Returns whether a row is a record: it is not held, or its holder is alive.
        """
        is_alive = self._alive.get(row.holder)
        if is_alive is None:
            # Asked once: a commit must not see only some of the rows of a holder.
            is_alive = self._alive[row.holder] = self._owners.is_alive(row.holder)
        return is_alive

    def row(self, key: bytes) -> Row | None:
        """
        Returns a record.
        """
        stored = self.transaction.get(key)
        if stored is None:
            return None
        row = Row.decode(key, bytes(stored), self._where)
        return row if self.is_there(row) else None

    def rows(self, start: bytes) -> Iterator[tuple[bytes, Row, str]]:
        """
        Yields keys and rows from a key on, with the rows of dead holders, and for each
        why it is damaged; empty: it is not.
        """
        cursor = self.transaction.cursor()
        if cursor.set_range(start):
            for key, stored in cursor:
                raw = bytes(key)
                yield raw, *self._decoded(raw, bytes(stored))

    def _decoded(self, key: bytes, stored: bytes) -> tuple[Row, str]:
        try:
            return Row.decode(key, stored, self._where), ""
        except FormatError as error:
            # One damaged row must not hide the others.
            return Row.salvage(stored), str(error)


class LmdbEnvironment:
    """
    The open environment; use `enter` and `leave`. Any thread.

    Attributes:
        path: the directory.
        environment: of LMDB.
        owners: the live owners.
        is_forked: whether it belongs to the parent process.
    """

    def __init__(self, path: Path, map_bytes: int, calls: Calls) -> None:
        self.path = path
        self.is_forked = False
        self._users = 0
        try:
            path.mkdir(exist_ok=True)
        except FileExistsError as error:
            # The name of something else.
            text = f"{path}: not a directory: give a directory or a new name"
            raise NotAStoreError(text, path=str(path)) from error
        except OSError as error:
            # The error needs the path.
            raise storage_error("create", path, error) from error
        # Known by its inode: another path to it must not touch its lock files.
        self._claim = LmdbClaim(path)
        try:
            self._open(path, map_bytes, calls)
        except BaseException:
            # Nothing is open after any error.
            self._claim.release()
            raise

    def _open(self, path: Path, map_bytes: int, calls: Calls) -> None:
        is_used = (path / _OWNERS).exists()
        if is_used:
            _check(path / _DATA)
        allocate_lock_file(path / _LOCKS)
        try:
            try:
                self.environment = _environment(path, map_bytes)
            except lmdb.InvalidError:
                if is_used:
                    raise
                _forget_torn_start(path)
                self.environment = _environment(path, map_bytes)
        except lmdb.Error as error:
            # LMDB's errors do not leave this file.
            raise self._not_opened(error) from error
        try:
            self._claim.hold()
            self.environment.reader_check()
            if not is_used:
                # A process that finds the owners' file expects a complete data file.
                sync_directory(path, calls)
                sync_directory(path.parent, calls)
            self.owners = LmdbOwners(path / _OWNERS)
            self._file = _file_of(path)
        except lmdb.Error as error:
            # LMDB's errors do not leave this file.
            self.environment.close()
            raise self._not_opened(error) from error
        except StorageError:
            # A process opens a directory once: the next try has to start again.
            self.environment.close()
            raise

    @classmethod
    def enter(
        cls, path: Path, map_bytes: int, calls: Calls = SYSTEM
    ) -> LmdbEnvironment:
        """
        Returns the open directory; opens it if this process has not done so.

        Args:
            path: of the directory.
            map_bytes: its largest size.
            calls: system calls.

        Raises:
            BusyError: this process has it open by another path, as of a bind mount.
            ForkedError: the parent process had it open when it forked.
            FormatError: the file is damaged.
            FullError: the disk is full.
            StorageError: the operating system refused.
        """
        where = path.resolve()
        with _mutex:
            if any(space.path == where for space in _orphans):
                raise ForkedError(
                    f"{where} was open when this process was forked: fork before it "
                    "is opened, or start the process with 'spawn'",
                    path=str(where),
                )
            space = _open.get(where)
            if space is None:
                space = _open[where] = cls(where, map_bytes, calls)
            space._users += 1
            return space

    def leave(self) -> None:
        """
        Releases the directory; the last store closes it.
        """
        with _mutex:
            self._users -= 1
            if self._users == 0 and not self.is_forked:
                del _open[self.path]
                self.environment.close()
                self.owners.close()
                self._claim.release()

    def begin_owner(self) -> int:
        """
        Registers a new live owner, removes the rows of dead owners, and returns its
        number.
        """
        number = NO_HOLDER
        try:
            with self.writing() as view:
                last = view.transaction.get(_LAST_OWNER)
                taken = int.from_bytes(last or b"", "big") + 1
                self.owners.take(taken)
                number = taken
                view.transaction.put(_LAST_OWNER, number.to_bytes(8, "big"))
                # The death of a holder is not a commit.
                note_changes(view.transaction, ())
                dead = [
                    key
                    for key, row, damage in view.rows(b"\x01")
                    if not damage and not view.is_there(row)
                ]
                for key in dead:
                    view.transaction.delete(key)
        except BaseException:
            # Any error, also of the commit: the number stays free for another owner.
            self.owners.give(number)
            raise
        return number

    def measure(self) -> StoreSpace:
        """
        Returns the bytes of the pages in use, and of the map.

        Raises:
            StorageError: LMDB refused.
        """
        try:
            stat, info = self.environment.stat(), self.environment.info()
        except lmdb.Error as error:
            # LMDB's errors do not leave this file.
            raise self._refused("read", error) from error
        pages = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
        return StoreSpace(pages * stat["psize"], info["map_size"])

    @contextmanager
    def reading(self) -> Iterator[LmdbRead]:
        """
        Opens a read transaction for the block.

        Raises:
            NotAStoreError: the data file was removed or replaced.
            StorageError: LMDB refused.
        """
        self._check_file()
        try:
            with self.environment.begin() as transaction:
                yield LmdbRead(transaction, self.owners, str(self.path))
        except lmdb.Error as error:
            # LMDB's errors do not leave this file.
            raise self._refused("read", error) from error

    @contextmanager
    def writing(self) -> Iterator[LmdbRead]:
        """
        Opens the write transaction, one at a time for all processes; durable at the end
        of the block.

        Raises:
            FullError: no space; nothing was changed.
            NotAStoreError: the data file was removed or replaced.
            UnknownOutcomeError: the write of LMDB's root failed.
            StorageError: LMDB refused; nothing was changed.
        """
        self._check_file()
        try:
            with self.environment.begin(write=True) as transaction:
                yield LmdbRead(transaction, self.owners, str(self.path))
        except lmdb.Error as error:
            # LMDB's errors do not leave this file.
            if self._is_stopped():
                raise UnknownOutcomeError(
                    f"{self.path}: the write of LMDB's root page failed: close the "
                    "record store, open it again, and read the records of the commit",
                    path=str(self.path),
                ) from error
            raise self._refused("commit to", error) from error

    def _check_file(self) -> None:
        """
        A removed file takes commits that nobody reads again; one that was put in its
        place, as from a backup, may have another leader.
        """
        if _file_of(self.path) != self._file:
            raise NotAStoreError(
                f"{self.path}: the record store was removed or replaced while it was "
                "open: stop this process before you restore it",
                path=str(self.path),
            )

    def _is_stopped(self) -> bool:
        try:
            self.environment.begin(write=True).abort()
        except lmdb.PanicError:
            # The only permanent error.
            return True
        except lmdb.Error:
            # The caller raises the first error, which says more.
            return False
        return False

    def _refused(self, doing: str, error: lmdb.Error) -> PystoreError:
        where, number = str(self.path), max(error.code, 0)
        if isinstance(error, lmdb.MapFullError):
            size = self.environment.info()["map_size"]
            return FullError(
                f"cannot {doing} {where}: its {size} bytes are full, nothing was "
                "changed: close it and open it with a larger map_bytes (of a "
                "controller: storeMapBytes)",
                errno=errno.ENOSPC,
                path=where,
            )
        if self._is_disk_full(number):
            return FullError(
                f"cannot {doing} {where}: the disk is full, nothing was changed: "
                "make space, then try again",
                errno=errno.ENOSPC,
                path=where,
            )
        return StorageError(
            f"cannot {doing} {where}: {error}", errno=number, path=where
        )

    def _is_disk_full(self, number: int) -> bool:
        if number != errno.EIO:
            return number == errno.ENOSPC
        # LMDB reports a partial write to a full disk as EIO.
        return os.statvfs(self.path).f_bavail == 0

    def _not_opened(self, error: lmdb.Error) -> PystoreError:
        if error.code > 0:
            number = errno.ENOSPC if self._is_disk_full(error.code) else error.code
            return storage_error("open", self.path, OSError(number, str(error)))
        return FormatError(
            f"{self.path}: {error}: restore the record store from a backup",
            path=str(self.path),
        )


def _file_of(path: Path) -> tuple[int, int] | None:
    """
    Returns device and inode of the data file; ``None``: there is none.
    """
    try:
        status = os.stat(path / _DATA)
    except FileNotFoundError:
        # Removed with or without its directory.
        return None
    except OSError as error:
        # Such as a directory that this user may not enter any more.
        raise storage_error("look at", path / _DATA, error) from error
    return status.st_dev, status.st_ino


def _environment(path: Path, map_bytes: int) -> lmdb.Environment:
    return lmdb.Environment(
        os.fsencode(path),  # LMDB would encode it for the locale
        map_size=map_bytes,
        sync=True,
        metasync=True,
        writemap=False,
        lib_version=0,
    )


def _forget_torn_start(path: Path) -> None:
    """
    Truncates an unused file whose first two pages a full disk cut short: LMDB
    initialises an empty file, but refuses a short one.
    """
    with (path / _LOCKS).open("r+b") as locks:
        try:
            # LMDB's own lock: other processes that open the file wait for it or have
            # it.
            fcntl.lockf(locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise storage_error("lock", path / _LOCKS, error) from error
            return
        if (path / _DATA).stat().st_size < 2 * mmap.PAGESIZE:
            os.truncate(path / _DATA, 0)


def _check(path: Path) -> None:
    """
    Checks the data file. LMDB maps the file and trusts it: a short file causes a
    SIGBUS, an empty one is initialised again. Other processes may commit during the
    check, so one state of it is checked.
    """
    try:
        with snapshot(path):
            pass
    except FormatError as error:
        # It advises what is right for a store.
        raise FormatError(
            f"{path} is missing or damaged: restore the record store from a backup",
            path=str(path),
        ) from error
