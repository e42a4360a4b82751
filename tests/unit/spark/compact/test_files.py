"""
The files of an unfinished compaction.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pystore.errors import StorageError
from pystore.spark.compact import files
from pystore.spark.compact.files import ENTRY_DTYPE, OutputFiles, make_files
from pystore.spark.compact.sizes import ENTRY_BYTES, file_sizes

SIZES = file_sizes(1000, 460)


def test_an_entry_has_46_bytes() -> None:
    """
    RocketMQ's sparse consume queues have this size.
    """
    assert ENTRY_BYTES == ENTRY_DTYPE.itemsize


def test_files_are_made_with_their_end_marks(tmp_path: Path) -> None:
    """
    A blank record fills the log's file, an end entry ends the other one; the rest takes
    no space.
    """
    make_files(tmp_path, "T/3", ((0, 2000, 9), (2300, 92, 1)), SIZES)

    logs = sorted((tmp_path / "compactionLog/T/3").iterdir())
    queues = sorted((tmp_path / "compactionCq/T/3").iterdir())
    assert [f"{at:020d}" for at in (0, 2300)] == [path.name for path in logs]
    assert [path.name for path in logs] == [path.name for path in queues]
    for path, at, rest in ((logs[0], 2000, 300), (logs[1], 92, 2208)):
        content = path.read_bytes()
        assert 2300 == len(content)
        assert rest.to_bytes(4) + bytes.fromhex("cbd43194") == content[at : at + 8]
        assert not any(content[:at] + content[at + 8 :])
    for path, entries in ((queues[0], 9), (queues[1], 1)):
        content = path.read_bytes()
        assert 460 == len(content)
        end = bytes.fromhex("ff" * 8 + "00" * 30 + "ffffffff00000000")
        assert end == content[entries * 46 : entries * 46 + 46]
        assert 46 == len(content.replace(b"\0" * 46, b""))


def test_making_files_again_leaves_what_was_copied(tmp_path: Path) -> None:
    """
    A run that continues unfinished work makes them again.
    """
    for _ in range(2):
        make_files(tmp_path, "T/0", ((0, 200, 1),), SIZES)
        with OutputFiles(tmp_path) as outputs:
            outputs.write(f"compactionLog/T/0/{0:020d}", 5, b"copied")
            outputs.sync()

    content = (tmp_path / "compactionLog/T/0" / f"{0:020d}").read_bytes()
    assert b"copied" == content[5:11]


def test_the_number_of_open_files_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Any number can be written.
    """
    monkeypatch.setattr(files, "_OPEN_MAX", 3)
    before = len(os.listdir("/dev/fd"))
    with OutputFiles(tmp_path, os.O_CREAT) as outputs:
        for number in range(50):
            outputs.write(str(number % 10), number, b"x")
            assert len(os.listdir("/dev/fd")) <= before + 3
        outputs.sync()

    assert before == len(os.listdir("/dev/fd"))
    assert [b"x"] * 5 == [
        (tmp_path / "3").read_bytes()[at : at + 1] for at in range(3, 50, 10)
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")
def test_the_error_of_a_full_disk_names_the_path(tmp_path: Path) -> None:
    """
    The error of a missing file does, too.
    """
    (tmp_path / "full").symlink_to("/dev/full")

    with (
        OutputFiles(tmp_path) as outputs,
        pytest.raises(StorageError, match=f"write {tmp_path}/full: No space left"),
    ):
        outputs.write("full", 0, b"x")
    with (
        OutputFiles(tmp_path) as outputs,
        pytest.raises(StorageError, match="nothing: No such file"),
    ):
        outputs.write("nothing", 0, b"x")
