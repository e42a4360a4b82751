"""
Virtual time: events in the order of their moments, one after another. What each
machine takes for the time is another matter.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from math import ceil

__all__ = ["RATE_MAX", "RATE_MIN", "Clock", "LocalClock"]

RATE_MIN, RATE_MAX = 0.9, 1.1
"""How much a machine's clock may be slower or faster than time itself."""


class Clock:
    """
    Milliseconds that pass only when nothing is left to do in them.

    Attributes:
        now: the time.
        events: how many have happened.
    """

    def __init__(self) -> None:
        self.now = 0
        self.events = 0
        self._order = 0
        self._heap: list[tuple[int, int, Callable[[], None]]] = []

    def at(self, time: int, event: Callable[[], None]) -> None:
        """
        Something happens then, or now if then has passed.
        """
        self._order += 1
        heappush(self._heap, (max(time, self.now), self._order, event))

    def after(self, delay: int, event: Callable[[], None]) -> None:
        """
        Something happens in a while.
        """
        self.at(self.now + delay, event)

    def run_until(self, time: int) -> None:
        """
        Everything happens that is due until then.
        """
        heap = self._heap
        while heap and heap[0][0] <= time:
            self.now, _, event = heappop(heap)
            self.events += 1
            event()
        self.now = max(self.now, time)


class LocalClock:
    """
    The clock of one machine: it began somewhere, goes at a rate of its own, and never
    steps back. The wall clock beside it does.

    Args:
        time: what really passes.
        rate: milliseconds of this clock in one that really passes.
        offset: what it showed at the begin of time.

    Attributes:
        wall_ms: what to add for the wall clock.
    """

    def __init__(self, time: Clock, rate: float = 1.0, offset: int = 0) -> None:
        assert RATE_MIN <= rate <= RATE_MAX
        self.wall_ms = 1_700_000_000_000
        self._time = time
        self._rate = rate
        self._offset = offset

    @property
    def is_skewed(self) -> bool:
        """
        Whether it shows anything but the time.
        """
        return self._rate != 1.0 or self._offset != 0

    @property
    def now(self) -> int:
        """
        What it shows.
        """
        return self._offset + int(self._time.now * self._rate)

    def at(self, time: int, event: Callable[[], None]) -> None:
        """
        Something happens when it shows that, or now if it has.
        """
        self._time.at(ceil((time - self._offset) / self._rate), event)

    def after(self, delay: int, event: Callable[[], None]) -> None:
        """
        Something happens in a while, by this clock.
        """
        self.at(self.now + delay, event)
