"""
Whether this process stood still: stopped, swapped out, or on a machine that slept.

Whoever was silent meanwhile may be alive: what he said waits to be read, or he gave up
and is about to connect again. So a controller that stood still knows as little of who
is alive as one that has just begun to lead (R226).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pystore.clocks import boottime_ns

__all__ = ["STOOD_STILL_S", "PauseDetector"]

STOOD_STILL_S = 1.0
"""RocketMQ's brokers give a heartbeat up, and its connection, after as long."""
_LOOK_S = 0.25


class PauseDetector:
    """
    Of one event loop.

    Args:
        clock_ns: goes on while the process stands still.
    """

    def __init__(self, clock_ns: Callable[[], int] = boottime_ns) -> None:
        self._clock_ns = clock_ns
        self._looked_ns = clock_ns()
        self._has_stood = False

    async def run(self) -> None:
        """
        Looks at the clock, again and again.
        """
        while True:
            await asyncio.sleep(_LOOK_S)
            self._look()

    def stood_still(self) -> bool:
        """
        Returns whether the loop did not run for a while until now. It is said once.
        """
        self._look()
        has_stood, self._has_stood = self._has_stood, False
        return has_stood

    def _look(self) -> None:
        before_ns, self._looked_ns = self._looked_ns, self._clock_ns()
        if self._looked_ns - before_ns > STOOD_STILL_S * 1_000_000_000:
            self._has_stood = True
