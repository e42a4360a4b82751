"""
``data.mdb`` as a file: its pages checked, rewritten and reserved.

LMDB maps the file without checks: a short file is a SIGBUS, damage can be one, and an
empty file becomes a new database. So every page that LMDB could reach is checked
before LMDB opens the file. LMDB grows the file as it commits, which fails on a full
disk: so the file is grown before, by written bytes (A13).
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import lmdb.verify

from pystore.errors import FormatError, NotAStoreError
from pystore.fs.atomic import storage_error, sync_descriptor
from pystore.fs.layout import META_ADVICE

__all__ = [
    "PAGE_BYTES_MAX",
    "RESERVE_BYTES",
    "LmdbRoots",
    "allocate_lock_file",
    "check_data_file",
    "damage",
    "refuse_shared",
    "reserve",
    "rewrite",
]

RESERVE_BYTES = 1 << 20
"""Free bytes that `reserve` keeps after the last page in use."""

_LOCK_BYTES = 8192  # LMDB's lock file with 126 readers
_MAGIC = 0xBEEFC0DE
_META_AT = 16  # after the page header of LMDB 0.9
_NEW_META_AT = 24  # the same in LMDB 1.0
_VERSION = 1
_HEAD = struct.Struct("=II")
_PAGE_SIZE = struct.Struct("=I")
_LAST_PAGE = struct.Struct("=QQ")
_PAGE_SIZE_AT = _META_AT + 24
_LAST_PAGE_AT = _META_AT + 120
_META_BYTES = 152
_FLAGS = struct.Struct("=H46xH")
_FLAGS_AT = _PAGE_SIZE_AT + 4
_ORDER_FLAGS = 0x7E
"""Of a tree: how its keys are ordered, and whether they repeat; without environment."""
_INTEGER_KEYS = 0x08
PAGE_BYTES_MAX = 1 << 16
"""Of LMDB: a file with a larger number in its head is damaged."""

_ZEROS = bytes(1 << 16)
_ADVICE = f"{META_ADVICE}: the log stays, RocketMQ's rules then decide where it ends"
_problems: Callable[[str], list[str]] = lmdb.verify.verify


def check_data_file(path: Path, named: Path | None = None) -> None:
    """
    Make sure that LMDB can open the file safely.

    The file must not change meanwhile (`pystore.fs.lmdb_snapshot`).

    Args:
        path: of ``data.mdb``, in an existing ``meta/``, or of a copy.
        named: the path for errors; ``None``: the same.

    Raises:
        FormatError: it is missing, empty, short, damaged, or of LMDB 1.0.
        StorageError: the system refused to read it.
    """
    try:
        with path.open("rb") as file:
            problem = _head_problem(file.read(64))
        if problem is None:
            problem = _structure_problem(path)
    except FileNotFoundError:
        # Only an absent meta/ means a new store (A14).
        problem = "the file is missing"
    except lmdb.verify.VerifyError as error:
        # The verifier could not begin.
        problem = str(error)
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("read", path, error) from error
    if problem is not None:
        raise damage(named or path, problem)


def damage(path: Path, problem: str) -> FormatError:
    """
    The error for a data file that LMDB must not open.
    """
    return FormatError(f"{path}: {problem}: {_ADVICE}", path=str(path))


def refuse_shared(path: Path) -> None:
    """
    Make sure that a data file is a regular file of one store: a copy by hard links
    shares it (A18).

    Raises:
        FormatError: it is no regular file.
        NotAStoreError: it has more than one name.
        StorageError: the system refused.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        # The check of its content says so.
        return
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("read", path, error) from error
    if not stat.S_ISREG(status.st_mode):
        raise damage(path, "it is not a regular file")
    if status.st_nlink > 1:
        raise NotAStoreError(
            f"{path}: the file has {status.st_nlink} names, so another store shares "
            "it (a copy by hard links): put a copy in its place here: "
            "cp -p data.mdb data.new && mv data.new data.mdb",
            path=str(path),
        )


def _head_problem(head: bytes) -> str | None:
    if not head:
        return "the file is empty, which a new one never is"
    head = head.ljust(64, b"\0")
    if _HEAD.unpack_from(head, _NEW_META_AT)[0] == _MAGIC:
        return "LMDB 1.0 wrote it, and pystore reads LMDB 0.9"
    if _HEAD.unpack_from(head, _META_AT) != (_MAGIC, _VERSION):
        return "it does not begin as a file of LMDB 0.9"
    return None


def _structure_problem(path: Path) -> str | None:
    problems = _problems(str(path))
    if len(problems) > 1:
        return f"{problems[0]} (and {len(problems) - 1} more problems)"
    if problems:
        return problems[0]
    with path.open("rb") as file:
        roots = LmdbRoots.read(file.fileno())
    return (
        roots.size_problem(path.stat().st_size)
        or roots.order_problem()
        or roots.flags_problem()
    )


@dataclass(frozen=True, slots=True)
class LmdbRoots:
    """
    The fields of both meta pages: the last page in use, the transaction, and the flags
    of the trees of free pages and of records.
    """

    page_bytes: int
    last_pages: tuple[int, int]
    transactions: tuple[int, int]
    flags: tuple[tuple[int, int], ...]

    @classmethod
    def read(cls, descriptor: int) -> LmdbRoots:
        """
        The fields of an open file; zeros where it ends.
        """
        first = os.pread(descriptor, _META_BYTES, 0)
        (page_bytes,) = _PAGE_SIZE.unpack_from(
            first.ljust(_META_BYTES, b"\0"), _PAGE_SIZE_AT
        )
        # Of nonsense, nothing is read at a place that no file has.
        at = page_bytes if page_bytes <= PAGE_BYTES_MAX else 0
        return cls._of(first, os.pread(descriptor, _META_BYTES, at), page_bytes)

    @classmethod
    def of(cls, head: bytes) -> LmdbRoots:
        """
        The fields of the first two pages.
        """
        first = head[:_META_BYTES]
        (page_bytes,) = _PAGE_SIZE.unpack_from(
            first.ljust(_META_BYTES, b"\0"), _PAGE_SIZE_AT
        )
        at = page_bytes if page_bytes <= PAGE_BYTES_MAX else 0
        return cls._of(first, head[at : at + _META_BYTES], page_bytes)

    @classmethod
    def _of(cls, first: bytes, second: bytes, page_bytes: int) -> LmdbRoots:
        metas = [meta.ljust(_META_BYTES, b"\0") for meta in (first, second)]
        pairs = [_LAST_PAGE.unpack_from(meta, _LAST_PAGE_AT) for meta in metas]
        last_pages, transactions = zip(*pairs, strict=True)
        flags = tuple(_FLAGS.unpack_from(meta, _FLAGS_AT) for meta in metas)
        return cls(page_bytes, last_pages, transactions, flags)

    @property
    def used_bytes(self) -> int:
        """
        The end of the last page in use.
        """
        return int((max(self.last_pages) + 1) * self.page_bytes)

    def size_problem(self, size: int) -> str | None:
        """
        The verifier reads only the first page of a large value, LMDB all pages.
        """
        if self.used_bytes <= size:
            return None
        return f"the file has {size} bytes, but {self.used_bytes} are in use"

    def flags_problem(self) -> str | None:
        """
        The verifier takes any order of keys. Repeated keys in the tree of free pages
        end the process at the next commit, another order finds no record.
        """
        expected = (_INTEGER_KEYS, 0)
        for flags in self.flags:
            if tuple(one & _ORDER_FLAGS for one in flags) != expected:
                return f"the flags of its trees are {flags[0]:#x} and {flags[1]:#x}"
        return None

    def order_problem(self) -> str | None:
        """
        LMDB alternates its roots and takes the newer one, without a checksum: a
        flipped bit in a number would bring back the state before without an error.
        """
        first, second = self.transactions
        is_fresh = first == second == 0
        if is_fresh or (abs(first - second) == 1 and first % 2 == 0):
            return None
        return f"its roots are of transactions {first} and {second}, not of neighbours"


def rewrite(path: Path) -> int:
    """
    Write the pages in use onto themselves and sync them (A12).

    After a failed sync the page cache can hold pages that are not on the disk and that
    the system never writes again. So the pages become durable before they are used.

    The caller holds the store's lock, LMDB has not opened the file, and it was
    checked.

    Returns:
        How many bytes were written.

    Raises:
        StorageError: the system refused; do not use the file.
    """
    try:
        descriptor = os.open(path, os.O_RDWR)
        try:
            roots = LmdbRoots.read(descriptor)
            used = min(roots.used_bytes, os.fstat(descriptor).st_size)
            for at in range(0, used, len(_ZEROS)):
                piece = os.pread(descriptor, min(len(_ZEROS), used - at), at)
                _write_at(descriptor, piece, at)
            sync_descriptor(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("rewrite", path, error) from error
    return used


def reserve(path: Path, used_bytes: int, reserve_bytes: int = RESERVE_BYTES) -> bool:
    """
    Grow the file if less than ``reserve_bytes`` follow the last page in use.

    It grows by zeros, not by a hole: so every file system has allocated the blocks,
    LMDB never truncates, and every page in use is within the file.

    Only the caller's LMDB transaction may write meanwhile.

    Args:
        path: of ``data.mdb``.
        used_bytes: the end of the last page in use.
        reserve_bytes: free bytes to keep.

    Returns:
        Whether bytes were added.

    Raises:
        FullError: no space; the pages in use are untouched.
        StorageError: the system refused.
    """
    try:
        size = path.stat().st_size
        if size >= used_bytes + reserve_bytes:
            return False
        # More than the reserve, so that not every commit has to renew it.
        target = used_bytes + reserve_bytes + RESERVE_BYTES
        descriptor = os.open(path, os.O_RDWR)
        try:
            for at in range(size, target, len(_ZEROS)):
                _write_at(descriptor, _ZEROS[: min(len(_ZEROS), target - at)], at)
            sync_descriptor(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("reserve room in", path, error) from error
    return True


def _write_at(descriptor: int, content: bytes, at: int) -> None:
    rest = memoryview(content)
    while rest:
        written = os.pwrite(descriptor, rest, at)
        rest, at = rest[written:], at + written


def allocate_lock_file(path: Path) -> None:
    """
    Allocate LMDB's lock file: LMDB maps it, and a full disk would be SIGBUS.

    The caller has claimed the directory (`pystore.fs.lmdb_claim`), and LMDB has not
    opened it: closing a descriptor drops its locks.

    Args:
        path: of ``lock.mdb``; made if it is missing.

    Raises:
        FullError: no space.
        StorageError: the system refused.
    """
    if not hasattr(os, "posix_fallocate"):
        return  # macOS has no call that keeps the content
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            os.posix_fallocate(descriptor, 0, _LOCK_BYTES)
        finally:
            os.close(descriptor)
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("reserve room in", path, error) from error
