"""
How a command ends: its exit code, and one line when it could not finish.
"""

from __future__ import annotations

import os

from pystore.errors import PystoreError

__all__ = [
    "BAD",
    "DONE",
    "INTERRUPTED",
    "PIPE_CLOSED",
    "UNFINISHED",
    "USAGE",
    "error_line",
]

DONE = 0
BAD = 1
"""The thing that was checked is bad."""
USAGE = 2
UNFINISHED = 3
"""It could not be done, or not to the end; a line on stderr says why."""

INTERRUPTED = 130
"""Ctrl-C: as a shell reports a process that died of SIGINT."""
PIPE_CLOSED = 141
"""Nobody reads the output any more: as a shell reports SIGPIPE."""


def error_line(error: Exception) -> str:
    """
    Returns *error* as one line: what is wrong, where, and what to do.

    The path is put in front if the text does not name it.
    """
    if isinstance(error, OSError) and not isinstance(error, PystoreError):
        reason = os.strerror(error.errno) if error.errno else str(error)
        where = error.filename
        text = reason if where is None else f"{os.fsdecode(where)}: {reason}"
    else:
        text = str(error)
        path = getattr(error, "path", None)
        if path and path not in text:
            text = f"{path}: {text}"
    return " ".join(text.split("\n"))
