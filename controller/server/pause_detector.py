"""
Detects a pause of this process: stopped, swapped out, or on a suspended machine.

A broker that seemed silent during the pause may be alive: its heartbeats wait in the
socket, or it has given up and will connect again. So after a pause a controller knows
as little about live brokers as a new leader (R226).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pystore.clocks import boottime_ns

__all__ = ["STOOD_STILL_S", "PauseDetector"]

STOOD_STILL_S = 1.0
"""After this time RocketMQ's brokers give a heartbeat and its connection up."""
_LOOK_S = 0.25


class PauseDetector:
    """
    The detector of one event loop.

    Args:
        clock_ns: a clock that advances while the process is paused.
    """

    def __init__(self, clock_ns: Callable[[], int] = boottime_ns) -> None:
        self._clock_ns = clock_ns
        self._looked_ns = clock_ns()
        self._has_stood = False

    async def run(self) -> None:
        """
        Reads the clock at intervals.
        """
        while True:
            await asyncio.sleep(_LOOK_S)
            self._look()

    def stood_still(self) -> bool:
        """
        Returns whether the loop was paused since the last call.
        """
        self._look()
        has_stood, self._has_stood = self._has_stood, False
        return has_stood

    def _look(self) -> None:
        before_ns, self._looked_ns = self._looked_ns, self._clock_ns()
        if self._looked_ns - before_ns > STOOD_STILL_S * 1_000_000_000:
            self._has_stood = True
