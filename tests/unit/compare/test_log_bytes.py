"""
Bytes are read by their offset, and a gap is no file.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pystore.compare.log_bytes import LogBytes
from pystore.errors import StorageError
from pystore.salvage.pieces import find_pieces


def make(root: Path) -> Path:
    """
    A log of which the second segment is missing.
    """
    (root / "commitlog").mkdir(parents=True)
    for base in (0, 400, 600):
        (root / "commitlog" / f"{base:020d}").write_bytes(b"%03d" % base + bytes(197))
    return root


def test_stretches_end_with_a_file_or_a_gap(tmp_path: Path) -> None:
    """
    Or where the caller says.
    """
    found = find_pieces(make(tmp_path / "s"))
    with LogBytes(found) as log:
        ends = [log.stretch(at, 700).end for at in (0, 199, 200, 399, 400, 650, 900)]
        pieces = [log.stretch(at, 700).piece for at in (199, 200, 400, 650, 900)]

        assert [200, 200, 400, 400, 600, 700, 700] == ends
        first, second, third = found.pieces
        assert [first, None, second, third, None] == pieces
        assert b"400" == log.read(second, 400, 3)
        assert b"600" == log.read(third, 600, 3)


def test_a_page_that_the_disk_cannot_read_is_told_from_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The first is a finding, the second an error with the path.
    """
    found = find_pieces(make(tmp_path / "s"))
    number = errno.EIO

    def fail(*_: object) -> bytes:
        raise OSError(number, "no")

    with LogBytes(found) as log:
        monkeypatch.setattr(os, "pread", fail)
        assert log.read(found.pieces[0], 0, 3) is None
        number = errno.EACCES
        with pytest.raises(StorageError, match="00000000000000000000"):
            log.read(found.pieces[0], 0, 3)
