"""
Lines that a thread writes, so that a service waits for no line.

A reader of stderr that takes nothing (a stopped pager, a log driver that hangs) or a
disk that stands still would stop the whole service. Lines that do not fit into the
queue are dropped, and their number is told.

Source: C2a.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

__all__ = ["LINES_MAX", "LineQueue"]

LINES_MAX = 1_000
"""How many lines wait at most."""


class LineQueue:
    """
    The lines to one place. Any thread.

    Args:
        write: writes one line; it may block, and raises nothing.
        dropped: called in the writing thread with the number of lines that were
            dropped.
        lines_max: how many lines wait at most.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        dropped: Callable[[int], object],
        lines_max: int = LINES_MAX,
    ) -> None:
        self._write = write
        self._tell_dropped = dropped
        self._lines_max = lines_max
        self._lines: deque[str] = deque()
        self._dropped = 0
        self._is_writing = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def put(self, line: str) -> None:
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

    def flush(self, timeout_s: float) -> bool:
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
                self._tell_dropped(dropped)
