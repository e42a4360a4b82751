"""
The files of a closed store, looked at and changed from outside.
"""

from __future__ import annotations

from pathlib import Path

from pystore.core.live_page import LivePage
from pystore.core.log_reader import LogReader
from pystore.store.commit_log import CommitLog

__all__ = ["end_of", "flip", "offsets", "restart_machine", "segment", "write"]


def segment(root: Path, base: int) -> Path:
    """
    The file of the segment that begins at *base*.
    """
    return root / "commitlog" / f"{base:020d}"


def write(path: Path, at: int, data: bytes) -> None:
    """
    Overwrites bytes of a file.
    """
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def flip(path: Path, at: int) -> None:
    """
    Changes one bit of a file.
    """
    write(path, at, bytes([path.read_bytes()[at] ^ 1]))


def offsets(root: Path, base: int, size: int) -> list[int]:
    """
    Where the records of a segment begin.
    """
    with LogReader(root) as log:
        found = [rows["offset"].tolist() for rows in log.scan(base, base + size)]
        return [offset for part in found for offset in part]


def end_of(root: Path) -> int:
    """
    Where the log of a store ends.
    """
    with CommitLog(root, mode="r") as log:
        return log.end_offset


def restart_machine(root: Path) -> None:
    """
    Makes the live page one of another boot, so that it is not valid.
    """
    with LivePage(root / "meta" / "live", writable=True) as page:
        page.begin(page.read()._replace(boot_id=bytes(range(16))))
