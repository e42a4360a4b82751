"""
The last events of a process, in a file of bounded size: one JSON object a line.

`logging.handlers.RotatingFileHandler` keeps two files: ``FILE``, and ``FILE.1`` with
the events before it. A thread writes, so that no event waits for the disk. Nothing
depends on the file: a full disk loses events, and that is told once.

Source: docs/operations.md, *What happened?*.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from logging.handlers import RotatingFileHandler

from pystore.events.event import Event, json_line
from pystore.events.line_queue import LineQueue

__all__ = ["HISTORY_BYTES_MAX", "EventHistory"]

HISTORY_BYTES_MAX = 8 << 20
"""Of each of the two files."""

_FLUSH_S = 0.5


class EventHistory:
    """
    The history file of one process. A context manager; any thread.

    Args:
        path: the file. It is made with the first event.
        say: receives one line when events are lost, until one is written again.
        bytes_max: of each of the two files.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        say: Callable[[str], object],
        bytes_max: int = HISTORY_BYTES_MAX,
    ) -> None:
        self._path = os.fspath(path)
        self._say = say
        self._is_losing = False
        self._file = _HistoryFile(self._path, bytes_max, self._failed)
        self._lines = LineQueue(
            self._write,
            lambda count: self._lost(f"{count} events came faster than the disk"),
        )

    def __enter__(self) -> EventHistory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def tell(self, event: Event) -> None:
        """
        Takes an event; never blocks. Those for debugging are left out: they would push
        the others out.
        """
        if event.level > logging.DEBUG:
            self._lines.put(json_line(event))

    def close(self) -> None:
        """
        Waits a moment for the last events to be written. Idempotent.
        """
        # Of a disk that takes nothing the last events are lost as well.
        with suppress(OSError):
            if self._lines.flush(_FLUSH_S):
                self._file.close()

    def _write(self, line: str) -> None:
        self._file.error = None
        self._file.handle(logging.makeLogRecord({"msg": line}))
        if self._file.error is None:
            self._is_losing = False

    def _failed(self, error: BaseException | None) -> None:
        self._lost(getattr(error, "strerror", None) or str(error))

    def _lost(self, reason: str) -> None:
        if not self._is_losing:
            self._is_losing = True
            self._say(f"events are lost, they are not in {self._path}: {reason}")


class _HistoryFile(RotatingFileHandler):
    """
    Reports the error of a record in place of printing it.
    """

    def __init__(
        self, path: str, bytes_max: int, failed: Callable[[BaseException | None], None]
    ) -> None:
        super().__init__(path, "a", bytes_max, 1, encoding="utf-8", delay=True)
        self.error: BaseException | None = None
        self._failed = failed

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802
        self.error = sys.exception()
        self._failed(self.error)
