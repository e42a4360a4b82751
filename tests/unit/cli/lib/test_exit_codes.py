"""
An error is one line: what is wrong, where, and what to do.
"""

from __future__ import annotations

import errno

import pytest

from pystore.cli.lib.exit_codes import error_line
from pystore.errors import CorruptError, NotAStoreError, StorageError


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (NotAStoreError("/s: no store", path="/s"), "/s: no store"),
        (CorruptError("bad", offset=7, path="/s"), "/s: bad"),
        (CorruptError("first\nsecond"), "first second"),
        (StorageError("cannot read /s: gone", path="/s"), "cannot read /s: gone"),
        (OSError(errno.ENOSPC, "", "/s"), "/s: No space left on device"),
        (OSError(errno.ENOSPC, ""), "No space left on device"),
        (OSError("odd"), "odd"),
    ],
)
def test_the_line_names_the_path_once(error: Exception, line: str) -> None:
    """
    Errors of pystore mostly contain it; errors of the system never do.
    """
    assert line == error_line(error)
