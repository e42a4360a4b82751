"""
Clocks of hosts that go at rates of their own, and what a test may choose of times.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from pystore.controller.liveness.clock_skew import FAST, SLOW

__all__ = ["MS", "SOON", "Clock", "clocks", "delays", "pauses", "rates"]

MS = 1_000_000
SOON = 2
"""Nothing arrives at the moment at which it was sent; in nanoseconds."""


@dataclass
class Clock:
    """
    One that began somewhere and goes at its own rate.
    """

    rate: int
    began_ns: int

    def ns(self, now_ns: int) -> int:
        """
        Returns what it shows.
        """
        return self.began_ns + now_ns * self.rate // 10

    def when(self, ns: int) -> int:
        """
        Returns the first moment at which it shows that.
        """
        return -(-(ns - self.began_ns) * 10 // self.rate)


rates = st.sampled_from((SLOW, 10, FAST))
pauses = st.sampled_from((0, 1, 300, 3_000, 8_181, 9_999, 10_000, 12_300)).map(
    lambda ms: ms * MS
) | st.integers(0, 15_000 * MS)
delays = st.sampled_from((0, 0, 0, MS, 500 * MS)) | pauses
clocks = st.builds(Clock, rates, st.integers(0, 10**12))
