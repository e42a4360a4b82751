"""
A bar on a terminal, for what takes longer than a second.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, TextIO

import click

__all__ = ["ProgressBar"]

_PATIENCE_SECONDS = 1.0
_CLEAR_LINE, _SHOW_CURSOR = "\r\x1b[K", "\x1b[?25h"


class ProgressBar:
    """
    Draws how far something is, on stderr, if that is a terminal.

    Nothing is drawn in the first second, and nothing stays when it is done. One
    thread at a time. A context manager.

    Args:
        label: what is going on.
        total: what ``reach`` is called with at the end; 0 draws nothing.
        stream: where to; ``None`` is stderr.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        label: str,
        total: int = 0,
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._label = label
        self._total = total
        self._clock = clock
        self._due = clock() + _PATIENCE_SECONDS
        self._is_terminal = self._stream.isatty()
        self._bar: Any = None

    def reach(self, position: int, total: int | None = None) -> None:
        """
        Says how far it is, and how far it will go if that is known only now.
        """
        if total is not None:
            self._total = total
        if not self._is_terminal or not self._total:
            return
        if self._bar is None:
            if self._clock() < self._due:
                return
            self._bar = click.progressbar(
                length=self._total, label=self._label, file=self._stream
            )
        self._bar.update(min(position, self._total) - self._bar.pos)

    def close(self) -> None:
        """
        Makes room for the result: the line is cleared, the cursor shown.
        """
        if self._bar is not None:
            self._stream.write(_CLEAR_LINE + _SHOW_CURSOR)
            self._stream.flush()
            self._bar = None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
