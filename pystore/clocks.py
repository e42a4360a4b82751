"""
The clocks of the machine.

Other modules take a clock as an argument; these functions are the defaults.
"""

from __future__ import annotations

import time


def boottime_ns() -> int:
    """
    Returns the time since the machine started, in ns, with the time of its sleep.
    """
    return time.clock_gettime_ns(_BOOTTIME)


def wall_ms() -> int:
    """
    Returns the time of the wall clock, in ms since 1970.
    """
    return time.time_ns() // 1_000_000


# Where it is missing, the core uses the monotonic clock as well.
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def clock_ms() -> int:
    """
    Returns milliseconds of a clock that never steps back.
    """
    return time.monotonic_ns() // 1_000_000
