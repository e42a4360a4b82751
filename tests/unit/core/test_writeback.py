"""
Early write-back is a hint for any file.
"""

from __future__ import annotations

import os
from pathlib import Path

from pystore.core.writeback import start_writeback


def test_the_bytes_are_those_that_were_written(tmp_path: Path) -> None:
    """
    Also behind the end of the file, and for a descriptor that is none.
    """
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.write(b"x" * 10_000)
        file.flush()
        start_writeback(file.fileno(), 0, 10_000)
        start_writeback(file.fileno(), 1 << 40, 4096)
    start_writeback(-1, 0, 1)
    os.sync()
    assert b"x" * 10_000 == path.read_bytes()
