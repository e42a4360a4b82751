"""
The small files of a store that a job reads on the driver: epochs and checkpoint.
"""

from __future__ import annotations

from pathlib import Path

from pystore.epochs.file import read_epochs
from pystore.epochs.table import EpochTable
from pystore.fs.layout import EPOCH_FILE, EPOCH_FILE_BACKUP
from pystore.fs.regular_file import read_regular

__all__ = ["read_epoch_table", "read_if_present"]


def read_if_present(path: Path) -> bytes | None:
    """
    Returns the content of a file; ``None``: there is no such file.

    Raises:
        OSError: the system refused.
    """
    try:
        return read_regular(path)
    except FileNotFoundError:
        # A store without a controller has no epochs, a new one has no checkpoint.
        return None


def read_epoch_table(root: Path) -> EpochTable | None:
    """
    Returns the epochs of a store; ``None``: the store has no epoch file.

    Args:
        root: of the store.

    Raises:
        FormatError: the epoch file and its backup cannot be read.
        OSError: the system refused.
    """
    content = read_if_present(root / EPOCH_FILE)
    backup = read_if_present(root / EPOCH_FILE_BACKUP)
    found = read_epochs(content, backup, str(root / EPOCH_FILE))
    return None if found is None else found.table
