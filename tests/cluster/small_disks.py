"""
Disks that are full for real: small file systems, each in a mount namespace of its own.

A holder process keeps the namespace; it ends with the test's process, and the mounts
end with it. Other processes are started inside, and the test looks in through /proc.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType

import pytest

__all__ = ["NEEDS_MOUNTS", "SmallDisk", "ThinDisk"]

NEEDS_MOUNTS = pytest.mark.skipif(
    sys.platform != "linux"
    or os.geteuid() != 0
    or not all(map(shutil.which, ("unshare", "nsenter", "mkfs.ext4"))),
    reason="mounting a small file system needs root, unshare, nsenter and mkfs.ext4",
)

_TMPFS = "mount -t tmpfs -o size=8m none {0}"
_HOLD = " && echo mounted && exec cat"
# What ext4 writes about itself gets space at once: only data is ever refused.
_THIN = (
    "mount -t tmpfs -o size=8m none {0} && mkdir {0}/disk && "
    "head -c 2097152 /dev/zero > {0}/image && truncate -s 32m {0}/image && "
    "mkfs.ext4 -q -b 4096 -N 512 -O ^has_journal -E nodiscard {0}/image && "
    "mount -o loop {0}/image {0}/disk"
)


class SmallDisk:
    """
    A disk of 8 MiB, in memory. A context manager.

    Args:
        folder: where processes inside find it; made here.

    Attributes:
        path: a folder on it, for processes inside.
        inside: the beginning of a command that is to run inside.
    """

    _mount = _TMPFS
    _place = ""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        script = self._mount.format(folder) + _HOLD
        self._holder = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        assert b"mounted\n" == self._holder.stdout.readline()
        pid = self._holder.pid
        self.path = folder / self._place
        self.inside = ("nsenter", f"--mount=/proc/{pid}/ns/mnt")
        self._root = Path(f"/proc/{pid}/root")
        self._filler = self.seen(folder / "filler")

    def __enter__(self) -> SmallDisk:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._holder.stdin is not None
        assert self._holder.stdout is not None
        self._holder.stdin.close()
        self._holder.wait()
        self._holder.stdout.close()

    def seen(self, path: Path) -> Path:
        """
        Returns where this process sees what processes inside call *path*.
        """
        return self._root / path.relative_to("/")

    def fill(self) -> None:
        """
        Not a byte is free any more.
        """
        with self._filler.open("ab", buffering=0) as file:
            for size in (1 << 16, 4096, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    # Full, for pieces of that size.
                    continue

    def free(self) -> None:
        """
        There is space again.
        """
        self._filler.unlink()


class ThinDisk(SmallDisk):
    """
    A disk that promises 32 MiB and has 8: what does not fit is refused when it is
    written back, long after the write was taken.
    """

    _mount = _THIN
    _place = "disk"
