"""
Two equal stores for the tests of healing.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from lib.store.pairs import Pair, fill


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    """
    Two equal stores, closed.
    """
    fill(tmp_path / "copy")
    shutil.copytree(tmp_path / "copy", tmp_path / "store")
    return Pair(tmp_path / "store", tmp_path / "copy")
