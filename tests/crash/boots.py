"""
A restart of the machine, as a store sees it: another boot id.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pystore.fs import boot

__all__ = ["another_boot", "same_boot"]


@contextmanager
def same_boot(boot_id: str) -> Iterator[None]:
    """The machine runs in this boot; empty: the real one."""
    if not boot_id:
        yield
        return
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(boot_id)
        file.flush()
        before = boot._LINUX_BOOT_ID
        boot._LINUX_BOOT_ID = Path(file.name)
        try:
            yield
        finally:
            boot._LINUX_BOOT_ID = before


@contextmanager
def another_boot() -> Iterator[None]:
    """The machine has started again."""
    with same_boot(str(uuid.uuid4())):
        yield
