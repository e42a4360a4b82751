"""
The bounds of the rates of two clocks. Pure.

Each process measures time with its own clock: a broker its lease, ZooKeeper's servers a
session, a controller its authority and its waits. The clocks need not agree on the
time; their rates have to be between `SLOW` and `FAST` tenths of the true rate. So a
granted time is shorter than the time that another process waits for its end: granted
time on the slowest clock ends before waited time on the fastest clock.

    granted / 0.9 <= waited / 1.1, so granted <= waited * 9 / 11

Of 10 000 waited ms, 8 181 may be granted; 2/11 are the margin. Only this module
subtracts the margin: the broker uses the number of the answer as it is.

Source: C1 to C3. A paused machine is not a clock error.
"""

from __future__ import annotations

__all__ = ["FAST", "SLOW", "granted", "waited"]

SLOW = 9
"""Tenths on the slowest clock while ten tenths pass."""

FAST = 11
"""Tenths on the fastest clock while ten tenths pass."""


def granted(waited: int) -> int:
    """
    Returns the time that may be granted to one process if another process waits so long
    for its end, each by its own clock. Any unit; rounded down.
    """
    return waited * SLOW // FAST


def waited(granted: int) -> int:
    """
    Returns the time to wait for the end of a granted time. Any unit; rounded up.
    """
    return -(-granted * FAST // SLOW)
