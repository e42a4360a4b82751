"""
The clocks of the machine, read.

Functions take one of them as an argument; only defaults name them.
"""

from __future__ import annotations

import time


def boottime_ns() -> int:
    """
    Returns the time since the machine started, sleep included.
    """
    return time.clock_gettime_ns(_BOOTTIME)


def wall_ms() -> int:
    """
    Returns the time of the wall clock.
    """
    return time.time_ns() // 1_000_000


# Without such a clock the core takes the monotonic one, too.
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def clock_ms() -> int:
    """
    Returns milliseconds of a clock that never steps back.
    """
    return time.monotonic_ns() // 1_000_000
