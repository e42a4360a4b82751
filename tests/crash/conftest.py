"""
What crash tests share: a store that is recorded.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from crash.proof import Proof

_MEMORY = Path("/dev/shm")


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory of a file system in memory, if there is one."""
    folder = _MEMORY if _MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="crash-", dir=folder) as name:
        yield Path(name).resolve()


@pytest.fixture
def proof(memory: Path) -> Proof:
    """A store that is not there yet, and will be recorded."""
    if sys.platform != "linux" or not shutil.which("cc"):
        pytest.skip("the recorder needs Linux and a C compiler")
    return Proof(memory)
