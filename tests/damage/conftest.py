"""
The stores that the tests of a module damage.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from damage.stores import Kept, make_all


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """
    A folder in memory, where nothing waits for a disk.
    """
    memory = "/dev/shm"
    place = memory if Path(memory).is_dir() else None
    path = tempfile.mkdtemp("", "pystore-damage-", place)
    yield Path(path)
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def stores(folder: Path) -> list[Kept]:
    """
    A store in each state, and those of RocketMQ.
    """
    return make_all(folder)
