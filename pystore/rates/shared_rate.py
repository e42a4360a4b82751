"""
A limit of bytes per second that several threads share, and that may change at any time.

Source: AR-R12; docs/autorecovery.md, *Rates*.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from pystore.clocks import clock_ms
from pystore.net.rate_limit import RateLimit

__all__ = ["SharedRate"]

_LONGEST_MS = 100
"""Of one sleep: a new rate counts soon."""


class SharedRate:
    """
    A rate. Any thread.

    Args:
        bytes_per_second: 0: no limit.
        now_ms: a clock that never steps back.
        sleep: lets seconds pass.

    Attributes:
        bytes_per_second: as it is now.
        moved_bytes: that were counted so far.
    """

    def __init__(
        self,
        bytes_per_second: int = 0,
        now_ms: Callable[[], int] = clock_ms,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.bytes_per_second = bytes_per_second
        self.moved_bytes = 0
        self._now_ms = now_ms
        self._sleep = sleep
        self._lock = threading.Lock()
        self._limit = RateLimit(bytes_per_second, now_ms())

    def change(self, bytes_per_second: int) -> None:
        """
        Sets another rate, from now on; what was moved too fast before is still waited
        for.
        """
        with self._lock:
            self._limit.change(bytes_per_second, self._now_ms())
            self.bytes_per_second = bytes_per_second

    def allowed(self, bytes_max: int) -> int:
        """
        Returns how many bytes may be moved now, at most *bytes_max*.
        """
        if not self.bytes_per_second:
            return bytes_max
        with self._lock:
            return self._limit.allowed(self._now_ms(), bytes_max)

    def spend(self, size: int) -> None:
        """
        Counts bytes that were moved, and does not wait.
        """
        with self._lock:
            self._limit.allowed(self._now_ms(), 0)
            self._limit.spend(size)
            self.moved_bytes += size

    def wait_ms(self) -> int:
        """
        Returns how long it takes until bytes are allowed again; 0: some are.
        """
        if not self.bytes_per_second:
            return 0
        with self._lock:
            self._limit.allowed(self._now_ms(), 0)
            return self._limit.wait_ms()

    def use(self, size: int, sleep: Callable[[float], object] | None = None) -> None:
        """
        Counts bytes that were moved, and waits until others may follow.

        Args:
            size: of them.
            sleep: lets seconds pass, or raises to end the wait; ``None``: that of the
                rate.
        """
        sleep = sleep or self._sleep
        self.spend(size)
        while wait_ms := self.wait_ms():
            sleep(min(wait_ms, _LONGEST_MS) / 1000)
