"""
The lines of a service on stderr, written by a thread: for people, or as JSON.

The service waits for no line (`pystore.events.line_queue`).

Source: C2a; docs/operations.md, *What happened?*.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from logging import DEBUG

import click

from pystore.clocks import wall_ms
from pystore.events.event import Event
from pystore.events.line_format import LOG_FORMATS, LineFormat, event_line, said_line
from pystore.events.line_queue import LINES_MAX, LineQueue

__all__ = ["LogLines", "line_format", "log_format_option", "to_stderr"]

_FLUSH_S = 0.5
_STDERR = 2

log_format_option = click.option(
    "--log-format",
    "logFormat",
    type=click.Choice(LOG_FORMATS),
    help="The form of the lines on stderr; text by default.",
)


def line_format(name: str) -> LineFormat:
    """
    Returns the form of the lines for a setting, ``text`` or ``json``. The journal of
    systemd adds the time by itself.
    """
    form = LineFormat(name)
    return LineFormat.UNTIMED if form is LineFormat.TEXT and _is_journal() else form


def _is_journal() -> bool:
    """
    Whether stderr is the journal: systemd names the device and inode of its socket.
    """
    named = os.environ.get("JOURNAL_STREAM", "")
    try:
        at = os.fstat(_STDERR)
    except OSError:
        # It is closed.
        return False
    return named == f"{at.st_dev}:{at.st_ino}"


class LogLines:
    """
    The lines of one process. Any thread. A context manager, which waits a moment for
    the last ones to be written.

    Args:
        form: of the lines.
        write: writes one line; it may block.
        lines_max: how many lines wait at most.
    """

    def __init__(
        self,
        form: LineFormat = LineFormat.TEXT,
        write: Callable[[str], object] | None = None,
        lines_max: int = LINES_MAX,
    ) -> None:
        self._form = form
        self._write = write or to_stderr
        self._queue = LineQueue(self._write, self._tell_dropped, lines_max)

    def __enter__(self) -> LogLines:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    def say(self, line: str) -> None:
        """
        Queues a line that tells no event; never blocks.
        """
        self._queue.put(said_line(line, wall_ms(), self._form))

    def tell(self, event: Event) -> None:
        """
        Queues the line of an event; never blocks. Those for debugging have no line.
        """
        if event.level > DEBUG:
            self._queue.put(event_line(event, self._form))

    def flush(self, timeout_s: float = _FLUSH_S) -> bool:
        """
        Waits until all lines are written; returns whether they are.
        """
        return self._queue.flush(timeout_s)

    def _tell_dropped(self, count: int) -> None:
        line = f"{count} more lines were dropped: stderr is too slow"
        self._write(said_line(line, wall_ms(), self._form))


def to_stderr(line: str) -> None:
    """
    Writes a line to stderr.
    """
    try:
        click.echo(line, err=True)
    except OSError:
        # The log may be on a full disk: the service is more important.
        return
