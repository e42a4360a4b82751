"""
Detects a pause of this process: stopped, swapped out, or on a suspended machine.

A broker that seemed silent during the pause may be alive: its heartbeats wait in the
socket, or it has given up and will connect again. So after a pause a controller knows
as little about live brokers as a new leader (RMQ-R226).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pystore.clocks import boottime_ns

__all__ = ["PAUSE_MIN_S", "PauseDetector"]

PAUSE_MIN_S = 1.0
"""After this time RocketMQ's brokers give a heartbeat and its connection up."""
_READ_S = 0.25


class PauseDetector:
    """
    The detector of one event loop.

    Args:
        clock_ns: a clock that advances while the process is paused.
    """

    def __init__(self, clock_ns: Callable[[], int] = boottime_ns) -> None:
        self._clock_ns = clock_ns
        self._read_ns = clock_ns()
        self._was_paused = False

    async def run(self) -> None:
        """
        Reads the clock at intervals.
        """
        while True:
            await asyncio.sleep(_READ_S)
            self._read_clock()

    def was_paused(self) -> bool:
        """
        Returns whether the loop was paused since the last call.
        """
        self._read_clock()
        was_paused, self._was_paused = self._was_paused, False
        return was_paused

    def _read_clock(self) -> None:
        before_ns, self._read_ns = self._read_ns, self._clock_ns()
        if self._read_ns - before_ns > PAUSE_MIN_S * 1_000_000_000:
            self._was_paused = True
