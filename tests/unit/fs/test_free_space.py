"""
The free space of a disk.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pystore.errors import FullError
from pystore.fs.free_space import require_free


def test_too_little_space_is_one_error_with_the_numbers(tmp_path: Path) -> None:
    """
    It names the folder, the job and what to do.
    """
    needed = shutil.disk_usage(tmp_path).total + 1

    require_free(tmp_path, 0, "the job", "wait")
    with pytest.raises(
        FullError, match=r"the job needs [\d.]+ .B, [\d.]+ .?B are free: wait"
    ) as caught:
        require_free(tmp_path, needed, "the job", "wait")

    assert str(tmp_path) == caught.value.path
