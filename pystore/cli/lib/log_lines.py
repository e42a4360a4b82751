"""
Lines of a service on stderr, written by a thread.

A reader of stderr that takes nothing (a stopped pager, a log driver that hangs) would
stop the whole service, so the service waits for no line: those that do not fit into the
queue are dropped, and their number is told.

Source: C2a.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

import click

__all__ = ["LogLines"]

_LINES_MAX = 1_000
_FLUSH_S = 0.5


class LogLines:
    """
    The lines of one process. Any thread. A context manager, which waits a moment for
    the last ones to be written.

    Args:
        write: writes one line; it may block.
        lines_max: how many lines wait at most.
    """

    def __init__(
        self,
        write: Callable[[str], object] | None = None,
        lines_max: int = _LINES_MAX,
    ) -> None:
        self._write = write or _to_stderr
        self._lines_max = lines_max
        self._lines: deque[str] = deque()
        self._dropped = 0
        self._is_writing = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> LogLines:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    def say(self, line: str) -> None:
        """
        Queues a line; never blocks.
        """
        with self._changed:
            if len(self._lines) >= self._lines_max:
                self._dropped += 1
                return
            self._lines.append(line)
            if self._thread is None:
                # A daemon: a process ends also while a line cannot be written.
                self._thread = threading.Thread(
                    target=self._run, name="pystore-log", daemon=True
                )
                self._thread.start()
            self._changed.notify_all()

    def flush(self, timeout_s: float = _FLUSH_S) -> bool:
        """
        Waits until all lines are written; returns whether they are.
        """
        with self._changed:
            return self._changed.wait_for(
                lambda: not self._lines and not self._is_writing, timeout_s
            )

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._lines)
                line = self._lines.popleft()
                dropped, self._dropped = self._dropped, 0
                self._is_writing = True
            self._write(line)
            if dropped:
                self._write(f"{dropped} more lines were dropped: stderr is too slow")


def _to_stderr(line: str) -> None:
    try:
        click.echo(f"pystore: {line}", err=True)
    except OSError:
        # The log may be on a full disk: the service is more important.
        return
