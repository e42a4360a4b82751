"""
Starting the machine again, as far as a store can tell: by the boot id.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pystore import boot

__all__ = ["another_boot"]


@contextmanager
def another_boot(boot_id: str = "") -> Iterator[str]:
    """The machine has started again: it has another boot id."""
    boot_id = boot_id or str(uuid.uuid4())
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(boot_id)
        file.flush()
        before = boot._LINUX_BOOT_ID
        boot._LINUX_BOOT_ID = Path(file.name)
        try:
            yield boot_id
        finally:
            boot._LINUX_BOOT_ID = before
