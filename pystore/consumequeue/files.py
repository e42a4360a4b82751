"""
The files of one consume queue: of equal size, one range of bytes.

A position is a byte offset in the whole queue, over all its files. As RocketMQ's,
files have their full length from the start, filled with zeros and sparse. They are
read with ``pread`` and written with ``pwrite``, so that a shorter file is an error and
never a signal.

After a power cut only the newest file may be missing or empty: a file and its name
are synced before the next file is created.

Layout: docs/format.md, consume queues (RocketMQ 5.3: ``MappedFileQueue``).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from pystore.errors import CorruptError, PoisonedError
from pystore.fs.atomic import replace_file, storage_error, sync_descriptor
from pystore.fs.fd_cache import Descriptor, FdCache
from pystore.fs.layout import segment_name

__all__ = ["QueueFiles"]

NAME_DIGITS = 20
_ZEROS = bytes(1 << 16)


class QueueFiles:
    """
    The bytes of one queue.

    Reads: any thread. All else: one thread at a time.

    Args:
        folder: ``<root>/consumequeue/<topic>/<queueId>``.
        file_size: of each file, in bytes.
        is_writable: whether files may be created, changed and removed.
        pool: the cache of descriptors.
        sync: writes the cached bytes of a descriptor to the disk.

    Attributes:
        bases: positions at which the files begin, ascending.
    """

    def __init__(
        self,
        folder: Path,
        file_size: int,
        *,
        is_writable: bool,
        pool: FdCache,
        sync: Callable[[int], None] = sync_descriptor,
    ) -> None:
        self.folder = folder
        self.file_size = file_size
        self.bases: list[int] = []
        self._flags = os.O_RDWR if is_writable else os.O_RDONLY
        self._is_writable = is_writable
        self._pool = pool
        self._sync = sync
        self._paths: dict[int, str] = {}
        # An unsynced file keeps its descriptor: the system reports a failed write-back
        # to the descriptors that are open at that time.
        self._dirty: dict[int, Descriptor] = {}
        self._are_names_synced = False
        self._is_poisoned = False

    @property
    def end(self) -> int:
        """
        The position at which the last file ends; 0 without files.
        """
        return self.bases[-1] + self.file_size if self.bases else 0

    @property
    def is_dirty(self) -> bool:
        """
        Whether some bytes may not be on disk.
        """
        return bool(self._dirty)

    def load(self) -> None:
        """
        Lists the files anew.

        A crash can leave an empty last file: it is removed, or skipped by a reader.

        Raises:
            CorruptError: a name is no position, a length differs, or a file is
                missing between two others.
            StorageError: the system refused.
        """
        try:
            names = sorted(path for path in self.folder.iterdir() if path.is_file())
            bases = [self._base(path) for path in names]
            if names and not names[-1].stat().st_size:
                if self._is_writable:
                    names[-1].unlink()
                    self._pool.note(self.folder)
                bases.pop()
            for at, base in enumerate(bases):
                self._check(names[at], base, bases[max(0, at - 1)])
        except FileNotFoundError:
            # A queue without a folder is a queue without entries.
            bases = []
        except OSError as error:
            # The error of the system does not name the path.
            raise storage_error("read", self.folder, error) from error
        self.bases = bases

    def _base(self, path: Path) -> int:
        name = path.name
        if len(name) == NAME_DIGITS and name.isascii() and name.isdigit():
            base = int(name)
            if base < 2**63 and base % self.file_size == 0:
                return base
        raise self._damage(path, "its name is no position of a file of this queue")

    def _check(self, path: Path, base: int, before: int) -> None:
        size = path.stat().st_size
        if size != self.file_size:
            raise self._damage(
                path, f"it has {size} bytes, and not {self.file_size} as configured"
            )
        if base - before > self.file_size:
            missing = path.with_name(segment_name(before + self.file_size))
            raise self._damage(missing, "the file is missing, and a later one is there")

    def _damage(self, path: Path, what: str) -> CorruptError:
        return CorruptError(
            f"{path}: {what}: `pystore doctor --apply` builds the queue again",
            path=str(path),
        )

    def _path(self, base: int) -> str:
        path = self._paths.get(base)
        if path is None:
            path = self._paths[base] = str(self.folder / segment_name(base))
        return path

    def place(self, position: int) -> tuple[Descriptor, int]:
        """
        Returns the open file that holds a position, and the position in it.

        Raises:
            StorageError: the system refused.
        """
        at = position % self.file_size
        base = position - at
        path = self._paths.get(base) or self._path(base)
        try:
            return self._pool.get(path, self._flags), at
        except OSError as error:
            # The error of the system does not name the path.
            raise storage_error("read", Path(path), error) from error

    def read(self, position: int, count: int) -> bytes:
        """
        Returns ``count`` bytes, all in existing files.

        Raises:
            CorruptError: a file ends early.
            StorageError: the system refused.
        """
        base = position - position % self.file_size
        path = self._paths.get(base) or self._path(base)
        try:
            # The name keeps the descriptor open during the call.
            file = self._pool.get(path, self._flags)
            data = os.pread(file.number, count, position - base)
        except OSError as error:
            # The error of the system does not name the path.
            raise storage_error("read", Path(path), error) from error
        if len(data) != count:
            here = base + self.file_size - position
            if len(data) != here:
                size = position - base + len(data)
                raise self._damage(Path(path), f"it ends at byte {size}")
            data += self.read(position + here, count - here)
        return data

    def has_hole(self, base: int) -> bool:
        """
        Whether the system has no data for a part of one file: it reads as zeros.

        Raises:
            StorageError: the system refused.
        """
        file, _ = self.place(base)
        try:
            return os.lseek(file.number, 0, os.SEEK_HOLE) < self.file_size
        except OSError as error:
            # The error of the system does not name the path.
            raise storage_error("read", Path(self._path(base)), error) from error

    def write(self, position: int, data: bytes) -> None:
        """
        Writes ``data`` and creates the files for it, all or nothing: after a failure
        the written bytes are zero again.

        Raises:
            FullError: no space is left.
            PoisonedError: a sync failed, now or before.
            StorageError: the system refused.
        """
        self._refuse_poisoned()
        done = 0
        try:
            while done < len(data):
                done += self._write_piece(position + done, data, done)
        except PoisonedError:
            # The next opening cuts what was not synced, and writes it again.
            raise
        except OSError as error:
            # Half an entry would count as one; the caller gets the path.
            with contextlib.suppress(OSError):
                self._zero(position, position + len(data))
            path = self._path((position + done) // self.file_size * self.file_size)
            raise storage_error("write", Path(path), error) from error

    def _write_piece(self, position: int, data: bytes, done: int) -> int:
        base = position - position % self.file_size
        if not self.bases or base > self.bases[-1]:
            self._create(base)
        file = self._dirty_file(base)
        here = min(len(data) - done, base + self.file_size - position)
        piece = memoryview(data)[done : done + here]
        return os.pwrite(file.number, piece, position - base)

    def _dirty_file(self, base: int) -> Descriptor:
        file = self._dirty.get(base)
        if file is None:
            file = self._pool.get(self._path(base), self._flags)
            self._dirty[base] = file
            if not self._are_names_synced:
                # Their creator may have been killed before the sync.
                self._pool.note(self.folder, *self.folder.parents[:3])
                self._are_names_synced = True
        return file

    def _create(self, base: int) -> None:
        self._make_folders()
        if self.bases:
            # Else a power cut could remove this file and not the next one.
            self._sync_file(self.bases[-1])
            self._pool.sync_folder(self.folder)
        path = self._path(base)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.ftruncate(descriptor, self.file_size)
        finally:
            os.close(descriptor)
        self._pool.note(self.folder)
        self.bases.append(base)

    def add_below(self, base: int, content: bytes, temporary: Path) -> None:
        """
        Adds a file before the first one: it is complete and on disk before it has its
        name, since a hole in a file ends the queue.

        Args:
            base: its position.
            content: all of it.
            temporary: a directory of the same file system.

        Raises:
            FullError: no space is left; nothing was changed.
            StorageError: the system refused; likewise.
        """
        self._refuse_poisoned()
        path = Path(self._path(base))
        try:
            self._make_folders()
        except OSError as error:
            # The error of the system does not name the path.
            raise storage_error("create", self.folder, error) from error
        replace_file(path, content, temporary)
        self._pool.note(*self.folder.parents[:3])
        # Readers in other threads have the old list.
        self.bases = [base, *self.bases]

    def _make_folders(self) -> None:
        # Not the store's own one: its path may have become free, or another's.
        for folder in (*reversed(self.folder.parents[:2]), self.folder):
            folder.mkdir(exist_ok=True)

    def _zero(self, start: int, end: int) -> None:
        for base in self.bases:
            first, last = max(start, base), min(end, base + self.file_size)
            file = self._dirty_file(base) if first < last else None
            while file is not None and first < last:
                piece = _ZEROS[: min(len(_ZEROS), last - first)]
                first += os.pwrite(file.number, piece, first - base)

    def cut(self, position: int, *, keep_first: bool) -> None:
        """
        Removes later files, newest first, and zeroes the rest of the file with
        ``position``, where it is not zero.

        Args:
            position: of the first removed byte.
            keep_first: keep the oldest file even if all its bytes are removed.

        Raises:
            PoisonedError: a sync failed before.
            StorageError: the system refused.
        """
        self._refuse_poisoned()
        keep = 1 if keep_first else 0
        while len(self.bases) > keep and self.bases[-1] >= position:
            self.remove(self.bases[-1])
        if not self.bases or position >= self.end:
            return
        start = max(position, self.bases[-1])
        rest = self.read(start, self.end - start)
        used = len(rest.rstrip(b"\0"))
        if used:
            try:
                self._zero(start, start + used)
            except OSError as error:
                # The error of the system does not name the path.
                path = Path(self._path(self.bases[-1]))
                raise storage_error("write", path, error) from error

    def remove(self, base: int) -> None:
        """
        Removes one file, the oldest or the newest.

        Raises:
            StorageError: the system refused.
        """
        path = self._path(base)
        # Else a power cut could bring back the one removed before this one.
        self._pool.sync_folder(self.folder)
        try:
            Path(path).unlink(missing_ok=True)
        except OSError as error:
            # The error of the system does not name the path.
            raise storage_error("remove", Path(path), error) from error
        self._pool.note(self.folder)
        self.bases.remove(base)
        self._dirty.pop(base, None)
        self._pool.forget(path)

    def sync(self) -> None:
        """
        Syncs all written bytes; the pool syncs the names.

        Raises:
            PoisonedError: this or an earlier sync failed. Reopen the store and write
                the unsynced bytes again.
        """
        self._refuse_poisoned()
        for base in list(self._dirty):
            self._sync_file(base)

    def _sync_file(self, base: int) -> None:
        file = self._dirty.get(base)
        if file is None:
            return
        try:
            self._sync(file.number)
        except OSError as error:
            # The system reports a failed write-back once: a second try would
            # succeed without proof.
            self._is_poisoned = True
            path = Path(self._path(base))
            reason = storage_error("sync", path, error)
            raise PoisonedError(
                f"{reason}: close the store and open it again",
                errno=reason.errno,
                path=str(path),
            ) from error
        del self._dirty[base]

    def _refuse_poisoned(self) -> None:
        if self._is_poisoned:
            raise PoisonedError(
                f"{self.folder}: an earlier sync failed: "
                "close the store and open it again",
                path=str(self.folder),
            )
