"""
How often one kind of lines is said: a flood of bad requests fills no log. Pure.

Source: docs/remoting.md.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["LINES_MAX", "LINES_S", "LineRate"]

LINES_MAX = 32
"""Lines of one kind within `LINES_S` seconds."""

LINES_S = 60.0


class LineRate:
    """
    Passes lines on, up to a rate. One thread.

    Args:
        say: receives the lines.
    """

    __slots__ = ("_ends_s", "_left", "_omitted", "_say")

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say
        self._left = LINES_MAX
        self._ends_s: float | None = None
        self._omitted = 0

    def say(self, line: str, now_s: float) -> None:
        """
        Says a line, unless there were too many; the next line tells how many were not
        said.

        Args:
            line: for people.
            now_s: of a clock that never steps back, in seconds.
        """
        if self._ends_s is None or now_s >= self._ends_s:
            self._ends_s, self._left = now_s + LINES_S, LINES_MAX
        if not self._left:
            self._omitted += 1
            return
        self._left -= 1
        if self._omitted:
            line = f"{line}; {self._omitted} such lines before it were left out"
            self._omitted = 0
        self._say(line)
