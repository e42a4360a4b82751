"""
Virtual time: events in the order of their moments, one after another.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

__all__ = ["Clock"]


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
