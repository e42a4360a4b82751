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
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TypeVar, cast
from weakref import WeakSet

import lmdb

from pystore.core.lock import lock_holder
from pystore.errors import (
    ClosedError,
    ForkedError,
    FormatError,
    FullError,
    InvalidError,
    LockedError,
    PoisonedError,
    PystoreError,
    StorageError,
)
from pystore.fs.atomic import storage_error
from pystore.fs.lmdb_claim import LmdbClaim
from pystore.fs.lmdb_file import (
    RESERVE_BYTES,
    allocate_lock_file,
    check_data_file,
    damage,
    refuse_shared,
    reserve,
    rewrite,
)
from pystore.fs.lmdb_snapshot import snapshot
from pystore.metastore.schema import FORMAT, MetaKey
from pystore.metastore.transaction import ReadTransaction, WriteTransaction
from pystore.metastore.values import StoreFormat

__all__ = ["LMDB_NAME", "MetaStore"]

LMDB_NAME = "lmdb"
"""The database's directory inside ``meta/``."""

T = TypeVar("T")

_MAP_BYTES = 1 << 32  # address space, not memory
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

    def __init__(
        self,
        path: Path,
        environment: lmdb.Environment,
        claim: LmdbClaim | None = None,
    ) -> None:
        self.path = path
        self._claim = claim
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
        metastore = cls._claimed(path)
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
            LockedError: another process has it open, without the store's lock.
            StorageError: the system refused.
        """
        path = meta / LMDB_NAME
        if not path.is_dir():
            raise damage(path / "data.mdb", "the file is missing")
        return cls._claimed(path, is_checked=False)._checked()._with_rows()

    @classmethod
    def _claimed(cls, path: Path, *, is_checked: bool = True) -> MetaStore:
        """
        Open a directory for writing; no file of it is touched before it is claimed.
        """
        claim = LmdbClaim(path)
        try:
            if not is_checked:
                _refuse_used(path)
                refuse_shared(path / "data.mdb")
                check_data_file(path / "data.mdb")
                rewrite(path / "data.mdb")
            environment = _open_environment(path)
            try:
                claim.hold()
            except BaseException:
                # After any error nothing is open.
                environment.close()
                raise
            return cls(path, environment, claim)
        except BaseException:
            # Nothing is open after any error.
            claim.release()
            raise

    @classmethod
    def open_read_only(cls, meta: Path) -> MetaStore:
        """
        Open the state of now for reading, also while this or another process writes.

        It is a copy: later changes do not show, and no lock of LMDB is touched.

        Raises:
            FormatError: missing, empty, damaged, or of a newer pystore or LMDB.
            BusyError: a writer changes it too fast; try again.
            StorageError: the system refused.
        """
        path = meta / LMDB_NAME
        with snapshot(path / "data.mdb") as copy:
            environment = _open_snapshot(path, copy)
        return cls(path, environment)._checked()

    def _checked(self) -> MetaStore:
        try:
            with self.view() as view:
                view.read(FORMAT).refuse_unknown(str(self.path))
        except BaseException:
            # No caller gets the handle.
            self.close()
            raise
        return self

    def _with_rows(self) -> MetaStore:
        """
        Bring the database of an older pystore into the present form.
        """
        try:
            if not self.read(FORMAT).has_rows:
                with self.change() as change:
                    change.store_in_rows()
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
            if self._claim is not None:
                self._claim.release()

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
                yield ReadTransaction(
                    transaction.get, partial(_rows, transaction), str(self.path)
                )
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
                change = WriteTransaction(
                    transaction.get, partial(_rows, transaction), str(self.path)
                )
                yield change
                # Each key once: if a large value shrinks twice in one transaction, LMDB
                # keeps the longer run of pages, which its verifier calls damage.
                for key, value in change.records():
                    if value is None:
                        transaction.delete(key)
                    else:
                        transaction.put(key, value)
            self._renew_reserve_after(environment)
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
        used, wanted = self._room(environment)
        try:
            reserve(self.path / "data.mdb", used, wanted)
        except StorageError as error:
            # The rest of the reserve is for this transaction.
            self.reserve_problem = str(error)
        else:
            self.reserve_problem = None

    def _renew_reserve_after(self, environment: lmdb.Environment) -> None:
        """
        A change that added many rows took the reserve: the next one may find the disk
        full.
        """
        # The change is durable: errors are those of the next one.
        with contextlib.suppress(lmdb.Error, OSError):
            used, wanted = self._room(environment)
            if (self.path / "data.mdb").stat().st_size < used + wanted:
                with environment.begin(write=True) as transaction:
                    self._renew_reserve(environment)
                    transaction.abort()

    def _room(self, environment: lmdb.Environment) -> tuple[int, int]:
        """
        The end of the last page in use, and the free bytes to keep after it: LMDB
        writes a changed page to another place, and one change may be of all rows.
        """
        used = (int(environment.info()["last_pgno"]) + 1) * self._page_bytes
        stat = environment.stat()
        pages = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
        return used, RESERVE_BYTES + int(pages) * self._page_bytes

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


def _rows(
    transaction: lmdb.Transaction, prefix: bytes
) -> Iterator[tuple[bytes, bytes]]:
    """
    The keys that begin with some bytes, with their values.
    """
    with transaction.cursor() as cursor:
        if cursor.set_range(prefix):
            for pair in cursor.iternext():
                # Without buffers, LMDB gives bytes.
                key, value = cast("tuple[bytes, bytes]", pair)
                if not key.startswith(prefix):
                    break
                yield key, value


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


def _refuse_used(path: Path) -> None:
    """
    Make sure that no other process has the database open for writing: one that lost
    the store's lock, whose file was removed or replaced, may not have noticed yet.
    """
    lock = path / "lock.mdb"
    holder = lock_holder(lock)
    if holder is not None:
        raise LockedError(
            f"{lock}: another process (pid {holder}) has the store open for writing, "
            "though its lock is free: was the file removed or replaced? Stop that "
            "process first",
            path=str(lock),
        )


def _open_environment(path: Path) -> lmdb.Environment:
    allocate_lock_file(path / "lock.mdb")
    try:
        environment = lmdb.Environment(
            os.fsencode(path),  # LMDB would encode it for the locale
            map_size=_MAP_BYTES,
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


def _open_snapshot(path: Path, copy: Path) -> lmdb.Environment:
    try:
        return lmdb.Environment(
            str(copy),
            map_size=_MAP_BYTES,
            subdir=False,
            readonly=True,
            create=False,
            lock=False,
            lib_version=0,
        )
    except lmdb.Error as error:
        # LMDB's errors do not leave this file.
        raise _not_opened(path, error) from error


def _not_opened(path: Path, error: lmdb.Error) -> PystoreError:
    if error.code > 0:
        return storage_error("open", path, OSError(error.code, str(error)))
    return FormatError(f"{path}: {error}: restore meta/ from a backup", path=str(path))
