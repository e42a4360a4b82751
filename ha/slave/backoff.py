"""
How long a slave waits before it connects again. Pure.

From one second, doubling up to thirty (K.3, type 2), less a part by chance: slaves
that lost one master must not come back to the next all at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["FIRST_MS", "MOST_MS", "BackOff", "BackOffConfig"]

FIRST_MS = 1000
"""The first wait, in ms."""

MOST_MS = 30_000
"""No wait is longer, in ms."""

_JITTER = 0.2


@dataclass(frozen=True, slots=True)
class BackOffConfig:
    """
    How long a follower waits between two links.

    Attributes:
        first_ms: after the first one.
        most_ms: at most.
    """

    first_ms: int = FIRST_MS
    most_ms: int = MOST_MS


class BackOff:
    """
    One wait after the other. One thread.

    Args:
        draw: a number in [0, 1), anew with every call.
        first_ms: the first wait.
        most_ms: the longest one.
    """

    def __init__(
        self,
        draw: Callable[[], float],
        first_ms: int = FIRST_MS,
        most_ms: int = MOST_MS,
    ) -> None:
        self._draw = draw
        self._first_ms = first_ms
        self._most_ms = most_ms
        self._next_ms = first_ms

    def wait_ms(self) -> int:
        """
        Returns how long to wait now: at least four fifths of the full time.
        """
        full_ms = self._next_ms
        self._next_ms = min(full_ms * 2, self._most_ms)
        return round(full_ms * (1 - _JITTER * self._draw()))

    def reset(self) -> None:
        """
        It went well: the next wait is the first one again.
        """
        self._next_ms = self._first_ms
