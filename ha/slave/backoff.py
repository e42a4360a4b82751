"""
How long a slave waits before it connects again. Pure.

From ten milliseconds, doubling up to thirty seconds (RMQ-K.3, type 2), less a random
part: slaves that lost one master must not all connect to the next one at the same time.
The first waits are short because a slave often hears of a new master before that
listens, and the acks of the set wait for the slave (B7).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["FIRST_MS", "MOST_MS", "STEADY_MS", "BackOff", "BackOffConfig"]

FIRST_MS = 10
"""The first wait, in ms."""

STEADY_MS = 1_000
"""A link that lived for so long did not break at once, in ms."""

MOST_MS = 30_000
"""No wait is longer, in ms."""

_JITTER = 0.2


@dataclass(frozen=True, slots=True)
class BackOffConfig:
    """
    The waits of a follower between two links.

    Attributes:
        first_ms: after the first one.
        most_ms: at most.
    """

    first_ms: int = FIRST_MS
    most_ms: int = MOST_MS


class BackOff:
    """
    The series of waits. One thread.

    Args:
        draw: returns a random number in [0, 1).
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
        Starts again with the first wait: the controller decided something new.
        """
        self._next_ms = self._first_ms

    def worked(self, lived_ms: int) -> None:
        """
        A link made progress, and ended. Starts again with the first wait if it lived
        for `STEADY_MS`. Otherwise the waits go on, up to that: a link that breaks after
        each block is not made a hundred times a second.

        Args:
            lived_ms: how long the link was open.
        """
        if lived_ms >= STEADY_MS:
            self.reset()
        else:
            self._next_ms = min(self._next_ms, STEADY_MS)
