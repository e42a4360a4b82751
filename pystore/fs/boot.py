"""
The identity of the boot that runs, and of the mount of a store.

The ends in ``meta/live`` are valid only in the same boot and on the same mount
(docs/crash-safety.md, A5): in another one the page cache that held them is gone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

from pystore.errors import StorageError
from pystore.fs.atomic import storage_error

__all__ = ["Boot", "StorePlace", "boot_of", "place_of"]


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
    return Boot(_boot_id(), _mount_id(store))


def _boot_id() -> bytes:
    if sys.platform == "darwin":
        name = ["sysctl", "-n", "kern.bootsessionuuid"]
        return uuid.UUID(subprocess.check_output(name, text=True).strip()).bytes
    try:
        return uuid.UUID(_LINUX_BOOT_ID.read_text().strip()).bytes
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("read", _LINUX_BOOT_ID, error) from error


def _mount_id(store: Path) -> int:
    try:
        descriptor = os.open(store, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("open", store, error) from error
    try:
        if sys.platform == "darwin":
            return os.fstat(descriptor).st_dev
        return _field(Path(f"/proc/self/fdinfo/{descriptor}"), "mnt_id:")
    finally:
        os.close(descriptor)


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
