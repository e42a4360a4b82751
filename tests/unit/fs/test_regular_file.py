"""
Small files: a pipe is refused, never waited for.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pystore.errors import FormatError
from pystore.fs.regular_file import open_regular, read_regular


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    """
    All bytes of it.
    """
    (tmp_path / "file").write_bytes(b"content" * 1000)

    assert b"content" * 1000 == read_regular(tmp_path / "file")


def test_a_pipe_is_refused_and_leaves_no_descriptor(tmp_path: Path) -> None:
    """
    An open for reading would wait for the other end.
    """
    os.mkfifo(tmp_path / "pipe")
    before = os.listdir("/proc/self/fd")

    for flags in (os.O_RDONLY, os.O_RDWR):
        with pytest.raises(FormatError, match="pipe: not a regular file: move it"):
            open_regular(tmp_path / "pipe", flags)
    assert len(before) == len(os.listdir("/proc/self/fd"))


def test_a_directory_and_a_missing_file_are_the_systems_errors(tmp_path: Path) -> None:
    """
    The caller gives them its words.
    """
    with pytest.raises(IsADirectoryError):
        read_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "none")
