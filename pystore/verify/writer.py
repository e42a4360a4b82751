"""
Who has a store open for writing, as far as can be told without its lock.
"""

from __future__ import annotations

import os
from pathlib import Path

from pystore.exports import ABORT, parse_abort

__all__ = ["running_writer"]


def running_writer(root: Path) -> int | None:
    """
    Returns the process that left ``abort``, if it still runs.

    The lock is not tried, not even for a moment: a writer that starts just then
    would be refused. If the process died and its number was given to another one,
    the answer is wrong; so it decides what is said, never what is done.

    Args:
        root: of the store.
    """
    try:
        pid = parse_abort((root / ABORT).read_bytes()).pid
    except FileNotFoundError:
        # The store was closed.
        return None
    if pid is None:
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        # It died without closing.
        return None
    except PermissionError:
        # It runs, under another user.
        return pid
    except OverflowError:
        # The text names no process at all.
        return None
    return pid
