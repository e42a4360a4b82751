"""
A progress bar on a terminal, for work that takes longer than a second.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["ProgressBar", "StepProgress"]

_DELAY_SECONDS = 1.0
_REDRAW_SECONDS = 0.1


class ProgressBar:
    """
    Shows progress on stderr, if that is a terminal.

    Nothing is drawn in the first second, and nothing stays when it is done. For one
    thread; none is started. A context manager.

    Args:
        label: what is in progress.
        total: the position at the end; with 0 nothing is drawn.
        stream: where to draw; ``None`` is stderr.
        clock: seconds that never decrease.
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
        self._now = clock()
        self._due = self._now + _DELAY_SECONDS
        self._is_terminal = self._stream.isatty()
        self._progress: Progress | None = None

    def reach(self, position: int, total: int | None = None) -> None:
        """
        Moves the bar to *position*, and its end to *total* if that is known only now.
        """
        if total is not None:
            self._total = total
        if not self._is_terminal or not self._total:
            return
        self._now = self._clock()
        if self._now < self._due:
            return
        self._due = self._now + _REDRAW_SECONDS
        completed = min(position, self._total)
        if self._progress is None:
            self._progress = self._started(completed)
            return
        (task,) = self._progress.tasks
        self._progress.update(task.id, completed=completed, total=self._total)
        self._progress.refresh()

    def _started(self, completed: int) -> Progress:
        # Importing it takes longer than many commands do.
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import Progress  # noqa: PLC0415

        progress = Progress(
            console=Console(file=self._stream, force_terminal=True),
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
            get_time=lambda: self._now,
        )
        progress.add_task(self._label, total=self._total, completed=completed)
        progress.start()
        return progress

    def close(self) -> None:
        """
        Clears the bar and shows the cursor again.
        """
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class StepProgress:
    """
    Shows a bar for one step after the other.
    """

    def __init__(self) -> None:
        self._label = ""
        self._progress: ProgressBar | None = None

    def note(self, label: str, done: int, total: int) -> None:
        """
        Shows the progress of a step; a new label begins a new bar.
        """
        if label != self._label:
            self.close()
            self._label = label
            self._progress = ProgressBar(label, total)
        if self._progress is not None:
            self._progress.reach(done)

    def close(self) -> None:
        """
        Removes the bar.
        """
        if self._progress is not None:
            self._progress.close()
            self._progress = None
