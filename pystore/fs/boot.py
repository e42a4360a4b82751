"""
The identity of the boot that runs, and of the mount of a store.

The ends in ``meta/live`` are valid only in the same boot and on the same mount
(docs/crash-safety.md, A5): in another one the page cache that held them is gone.
"""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

from pystore.errors import StorageError
from pystore.fs.atomic import storage_error

__all__ = ["Boot", "StorePlace", "boot_of", "mount_of", "place_of"]


@dataclass(frozen=True, slots=True)
class StorePlace:
    """
    Device and inode of the store directory; a copy has others (A15).
    """

    device: int = 0
    inode: int = 0


_LINUX_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Boot:
    """
    One boot and one mount.

    Attributes:
        boot_id: 16 random bytes that the kernel makes at its start.
        mount_id: of the mount that holds the store, unique within a boot.
    """

    boot_id: bytes
    mount_id: int

    @property
    def text(self) -> tuple[str, str]:
        """
        Both as text, as in `pystore.metastore.values.Bounds`.
        """
        return self.boot_id.hex(), str(self.mount_id)


def boot_of(store: Path) -> Boot:
    """
    The boot that runs and the mount of *store*.

    Raises:
        StorageError: the system refused.
    """
    return Boot(_boot_id(), mount_of(store))


def _boot_id() -> bytes:
    if sys.platform == "darwin":
        name = ["sysctl", "-n", "kern.bootsessionuuid"]
        return uuid.UUID(subprocess.check_output(name, text=True).strip()).bytes
    try:
        return uuid.UUID(_LINUX_BOOT_ID.read_text().strip()).bytes
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("read", _LINUX_BOOT_ID, error) from error


def mount_of(directory: Path) -> int:
    """
    The id of the mount that holds a directory: a rename within one mount is possible.

    An id that the system never gives twice, if it has one (Linux 6.8): another id is
    used again after an unmount, and would make a page cache valid that is gone.

    Raises:
        StorageError: the system refused.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("open", directory, error) from error
    try:
        if sys.platform == "darwin":
            return os.fstat(descriptor).st_dev
        unique = _unique_mount_id(descriptor)
        if unique is not None:
            return unique
        return _field(Path(f"/proc/self/fdinfo/{descriptor}"), "mnt_id:")
    finally:
        os.close(descriptor)


_EMPTY_PATH = 0x1000
_MOUNT_ID_UNIQUE = 0x4000
_STATX_BYTES = 256
_MASK = struct.Struct("=I")
_MOUNT_ID = struct.Struct("=Q")
_MOUNT_ID_AT = 144


def _unique_mount_id(descriptor: int) -> int | None:
    """
    ``stx_mnt_id`` of ``statx`` with ``STATX_MNT_ID_UNIQUE``; ``None``: an older system.
    """
    statx = getattr(ctypes.CDLL(None), "statx", None)
    if statx is None:
        return None
    found = ctypes.create_string_buffer(_STATX_BYTES)
    if statx(descriptor, b"", _EMPTY_PATH, _MOUNT_ID_UNIQUE, found):
        # A sandbox may forbid the call.
        return None
    (mask,) = _MASK.unpack_from(found)
    if not mask & _MOUNT_ID_UNIQUE:
        return None
    (mount_id,) = _MOUNT_ID.unpack_from(found, _MOUNT_ID_AT)
    return int(mount_id)


def _field(path: Path, name: str) -> int:
    try:
        for line in path.read_text().splitlines():
            if line.startswith(name):
                return int(line[len(name) :])
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("read", path, error) from error
    raise StorageError(f"{path}: no line {name}", path=str(path))


def place_of(store: Path) -> StorePlace:
    """
    Device and inode of a store directory, by which a copy differs from it (A15).

    Raises:
        StorageError: the system refused.
    """
    try:
        status = store.stat()
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("read", store, error) from error
    return StorePlace(status.st_dev, status.st_ino)
