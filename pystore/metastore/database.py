"""
The metastore: the metadata of a store, durable in LMDB (``meta/lmdb``).

Each change is one transaction with full sync, never NOSYNC, never WRITEMAP, and never
on the append path. The engine is LMDB 0.9 (``lib_version=0``). Before LMDB opens the
file, every page that it could reach is checked and rewritten durably
(`pystore.fs.lmdb_file`).

Faults: LMDB writes its new root last, so a failed commit changed nothing, and the next
one may succeed. Only if the write of the root fails, LMDB stops; then the store must be
reopened.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TypeVar
from weakref import WeakSet

import lmdb

from pystore.errors import (
    BusyError,
    ClosedError,
    ForkedError,
    FormatError,
    FullError,
    InvalidError,
    PoisonedError,
    PystoreError,
    StorageError,
)
from pystore.fs.atomic import storage_error
from pystore.fs.lmdb_file import (
    RESERVE_BYTES,
    allocate_lock_file,
    check_data_file,
    reserve,
    rewrite,
)
from pystore.metastore.schema import FORMAT, MetaKey
from pystore.metastore.transaction import ReadTransaction, WriteTransaction
from pystore.metastore.values import StoreFormat

__all__ = ["LMDB_NAME", "MetaStore"]

LMDB_NAME = "lmdb"
"""The database's directory inside ``meta/``."""

T = TypeVar("T")

_MAP_BYTES = 1 << 28  # address space, not memory
_CHECKS_MAX = 5
_open_metastores: WeakSet[MetaStore] = WeakSet()


def _after_fork() -> None:
    for metastore in list(_open_metastores):
        metastore.mark_forked()


os.register_at_fork(after_in_child=_after_fork)


class MetaStore:
    """
    An open ``meta/lmdb``.

    Any thread may use it at any time, but a thread must end its change before it
    begins another one; `close` does not wait for changes. After a fork the handle of
    the child raises `ForkedError`; that of the parent stays valid.

    Use `create`, `open` or `open_read_only`.

    Attributes:
        path: the database's directory.
        reserve_problem: why the reserve for a full disk could not be renewed, or
            ``None``. Each change tries again.
    """

    def __init__(self, path: Path, environment: lmdb.Environment) -> None:
        self.path = path
        self.reserve_problem: str | None = None
        self._environment: lmdb.Environment | None = environment
        self._page_bytes = int(environment.stat()["psize"])
        self._is_forked = False
        _open_metastores.add(self)

    @classmethod
    def create(
        cls, meta: Path, first: Callable[[WriteTransaction], object]
    ) -> MetaStore:
        """
        Create the database in a directory, with a reserve for a full disk.

        Args:
            meta: an existing directory, not yet renamed
                (`pystore.metastore.bootstrap`).
            first: writes the first records.

        Raises:
            FullError: no space.
            StorageError: the system refused.
        """
        path = meta / LMDB_NAME
        try:
            path.mkdir()
        except OSError as error:
            # The error of the system does not name the path.
            raise storage_error("create", path, error) from error
        metastore = cls(path, _open_environment(path, read_only=False))
        try:
            with metastore.change() as change:
                change.write(FORMAT, StoreFormat())
                first(change)
            if metastore.reserve_problem is not None:
                raise FullError(metastore.reserve_problem, path=str(path))
        except BaseException:
            # After any error the caller removes the directory.
            metastore.close()
            raise
        return metastore

    @classmethod
    def open(cls, meta: Path) -> MetaStore:
        """
        Open for writing; the caller holds the store's lock.

        Raises:
            FormatError: missing, empty, damaged, or of a newer pystore or LMDB.
            BusyError: this process has it open.
            StorageError: the system refused.
        """
        path = meta / LMDB_NAME
        check_data_file(path / "data.mdb")
        rewrite(path / "data.mdb")
        return cls(path, _open_environment(path, read_only=False))._checked()

    @classmethod
    def open_read_only(cls, meta: Path) -> MetaStore:
        """
        Open for reading, also while another process writes.

        Raises:
            FormatError: missing, empty, damaged, or of a newer pystore or LMDB.
            BusyError: this process has it open.
            StorageError: the system refused.
        """
        path = meta / LMDB_NAME
        _check_while_written(path / "data.mdb")
        return cls(path, _open_environment(path, read_only=True))._checked()

    def _checked(self) -> MetaStore:
        try:
            with self.view() as view:
                view.read(FORMAT).refuse_unknown(str(self.path))
        except BaseException:
            # No caller gets the handle.
            self.close()
            raise
        return self

    def __enter__(self) -> MetaStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """
        Close the database. Again, or in a forked child, it does nothing.
        """
        environment, self._environment = self._environment, None
        if environment is not None and not self._is_forked:
            environment.close()

    def mark_forked(self) -> None:
        """
        In a forked child: the handle belongs to the parent.
        """
        self._is_forked = True

    def _usable(self) -> lmdb.Environment:
        if self._is_forked:
            raise ForkedError(
                f"{self.path} was opened by the parent process: open the store again",
                path=str(self.path),
            )
        if self._environment is None:
            raise ClosedError(f"{self.path} is closed", path=str(self.path))
        return self._environment

    @contextlib.contextmanager
    def view(self) -> Iterator[ReadTransaction]:
        """
        The records at one moment, until the block ends.

        Raises:
            StorageError: LMDB refused.
        """
        environment = self._usable()
        try:
            with environment.begin() as transaction:
                yield ReadTransaction(transaction.get, str(self.path))
        except lmdb.Error as error:
            # LMDB's errors do not leave this file.
            raise self._refused("read", error) from error

    def read(self, key: MetaKey[T]) -> T:
        """
        The present value of one record.

        Raises:
            FormatError: the digest of its bytes is wrong.
            StorageError: LMDB refused.
        """
        with self.view() as view:
            return view.read(key)

    @contextlib.contextmanager
    def change(self) -> Iterator[WriteTransaction]:
        """
        One transaction: durable when the block ends, dropped if it raises.

        After a `StorageError` (but not `PoisonedError`) nothing was changed and
        the next change may succeed.

        Raises:
            FullError: no space.
            PoisonedError: the state on disk is unknown; reopen the store.
            StorageError: the system refused.
            InvalidError: the database is open for reading only.
        """
        environment = self._usable()
        try:
            with environment.begin(write=True) as transaction:
                self._renew_reserve(environment)
                change = WriteTransaction(transaction.get, str(self.path))
                yield change
                # Each key once: if a large value shrinks twice in one transaction, LMDB
                # keeps the longer run of pages, which its verifier calls damage.
                for key, value in change.records():
                    transaction.put(key, value)
        except lmdb.ReadonlyError as error:
            # An error of the caller, not of the disk.
            raise InvalidError(f"{self.path} is open for reading only") from error
        except lmdb.Error as error:
            # LMDB's errors do not leave this file.
            if _is_stopped(environment):
                raise self._poisoned() from error
            raise self._refused("commit to", error) from error

    def _renew_reserve(self, environment: lmdb.Environment) -> None:
        """
        Called under LMDB's write lock, so that no other thread grows the file.
        """
        used = (int(environment.info()["last_pgno"]) + 1) * self._page_bytes
        try:
            reserve(self.path / "data.mdb", used, RESERVE_BYTES)
        except StorageError as error:
            # The rest of the reserve is for this transaction.
            self.reserve_problem = str(error)
        else:
            self.reserve_problem = None

    def _poisoned(self) -> PoisonedError:
        return PoisonedError(
            f"{self.path}: the write of LMDB's root failed, so it is not known "
            "whether the change was made: close the store and open it again",
            errno=errno.EIO,
            path=str(self.path),
        )

    def _refused(self, doing: str, error: lmdb.Error) -> PystoreError:
        where = str(self.path)
        number = max(error.code, 0)
        system = os.statvfs(self.path)
        free = system.f_bavail * system.f_frsize
        # LMDB reports a write that was cut short by a full disk as EIO.
        is_full = number == errno.ENOSPC or (number == errno.EIO and free == 0)
        if is_full or isinstance(error, lmdb.MapFullError):
            return FullError(
                f"cannot {doing} {where}: {error} ({free} bytes free): "
                "nothing was changed: make space, then try again",
                errno=errno.ENOSPC,
                path=where,
            )
        return StorageError(
            f"cannot {doing} {where}: {error}", errno=number, path=where
        )


def _is_stopped(environment: lmdb.Environment) -> bool:
    """
    Whether LMDB stopped because the write of its root failed.
    """
    try:
        environment.begin(write=True).abort()
    except lmdb.PanicError:
        # This error is permanent.
        return True
    except lmdb.Error:
        # The caller has the first error, which is more precise.
        return False
    return False


def _check_while_written(path: Path) -> None:
    """
    Check a file that may change meanwhile: only a lasting problem is damage.
    """
    for attempt in range(_CHECKS_MAX):
        try:
            check_data_file(path)
        except FormatError:
            # A commit during the check looks like damage, but not each time.
            if attempt == _CHECKS_MAX - 1:
                raise
        else:
            return


def _open_environment(path: Path, *, read_only: bool) -> lmdb.Environment:
    allocate_lock_file(path / "lock.mdb", read_only=read_only)
    try:
        environment = lmdb.Environment(
            str(path),
            map_size=_MAP_BYTES,
            readonly=read_only,
            create=False,
            sync=True,
            metasync=True,
            writemap=False,
            lib_version=0,
        )
        # Killed readers would keep old pages from reuse.
        environment.reader_check()
    except lmdb.Error as error:
        # LMDB's errors do not leave this file.
        raise _not_opened(path, error) from error
    return environment


def _not_opened(path: Path, error: lmdb.Error) -> PystoreError:
    if "already open in this process" in str(error):
        return BusyError(
            f"{path} is open in this process: close that store first", path=str(path)
        )
    if error.code > 0:
        return storage_error("open", path, OSError(error.code, str(error)))
    return FormatError(f"{path}: {error}: restore meta/ from a backup", path=str(path))
