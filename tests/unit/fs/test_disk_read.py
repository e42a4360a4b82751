"""
Bytes are read from the disk, and are those of the file.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

from pystore.fs.disk_read import _read_dropped, read_disk

SIZE = 70_001


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """
    A file of an odd size.
    """
    path = tmp_path / "file"
    path.write_bytes(random.Random(1).randbytes(SIZE))
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return path


@pytest.mark.parametrize("read", [read_disk, _read_dropped])
@pytest.mark.parametrize("at", [0, 1, 4095, 4096, 8191, 60_000, SIZE - 1, SIZE])
@pytest.mark.parametrize("size", [0, 1, 4096, 4097, 70_000, 1 << 20])
def test_any_range_of_a_file_is_read(
    path: Path, read: object, at: int, size: int
) -> None:
    """
    Whatever alignment a range has, and past the end of the file.
    """
    assert callable(read)
    assert path.read_bytes()[at : at + size] == read(path, at, size)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc/self/io")
def test_pages_in_memory_are_read_from_the_disk_again(path: Path) -> None:
    """
    The system counts the bytes that a process fetched from a disk.
    """
    if os.statvfs(path).f_fsid == os.statvfs("/dev/shm").f_fsid:
        pytest.skip("the file is in memory")
    before = fetched()
    path.read_bytes()
    assert before == fetched()
    read_disk(path, 0, SIZE)
    if before == fetched():
        pytest.skip("the file system counts no reads")
    assert fetched() - before >= SIZE - 4096


def fetched() -> int:
    """
    The bytes that this process has fetched from disks.
    """
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["read_bytes"])


def test_a_missing_file_is_the_error_of_the_system(tmp_path: Path) -> None:
    """
    The caller names what it reads.
    """
    with pytest.raises(FileNotFoundError):
        read_disk(tmp_path / "none", 0, 1)
