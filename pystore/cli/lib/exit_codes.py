"""
The exit codes of commands, and the line for a command that could not finish.
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
"""The checked store or data is bad."""
USAGE = 2
UNFINISHED = 3
"""The command could not finish; a line on stderr gives the reason."""

INTERRUPTED = 130
"""Ctrl-C. A shell reports this code for a process that SIGINT ended."""
PIPE_CLOSED = 141
"""The reader closed the pipe. A shell reports this code for SIGPIPE."""


def error_line(error: Exception) -> str:
    """
    Returns *error* as one line: what is wrong, where, and what to do.

    The line begins with the path if the text does not name it.
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
