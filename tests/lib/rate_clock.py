"""
A clock for rates: sleeps move it on at once.
"""

from __future__ import annotations

import threading

__all__ = ["RateClock"]


class RateClock:
    """
    Any thread; the sleeps of several add up, divided by their number.

    Args:
        sleepers: how many threads sleep.

    Attributes:
        now_ms: the time.
    """

    def __init__(self, sleepers: int = 1) -> None:
        self.now_ms = 1_000.0
        self._sleepers = sleepers
        self._lock = threading.Lock()

    def read(self) -> int:
        """
        The time, in ms.
        """
        return int(self.now_ms)

    def read_ns(self) -> int:
        """
        The time, in ns.
        """
        return int(self.now_ms * 1_000_000)

    def sleep(self, seconds: float) -> None:
        """
        Lets time pass at once.
        """
        with self._lock:
            self.now_ms += seconds * 1000 / self._sleepers
