"""
By how much two clocks may differ over a length of time. Pure.

Everybody counts on a clock of his own: a broker its lease, ZooKeeper's servers a
session, a controller how long it may speak and how long it has to wait. No two of them
are ever set alike; all that is asked of them is a rate between `SLOW` and `FAST` tenths
of the true one. So whoever may do something for a while is told less than who waits
for the end of it: granted on the slowest clock it is over before it was waited for on
the fastest.

    granted / 0.9 <= waited / 1.1, so granted <= waited * 9 / 11

Of 10 000 ms that somebody waits, 8 181 may be granted, and 2/11 are the error. This is
the only place where it is taken off: the number in an answer is what the broker counts.

Source: C1 to C3. A machine that is paused from outside is no error of a clock.
"""

from __future__ import annotations

__all__ = ["FAST", "SLOW", "granted", "waited"]

SLOW = 9
"""Tenths that pass on the slowest clock while ten pass."""

FAST = 11
"""Tenths that pass on the fastest clock while ten pass."""


def granted(waited: int) -> int:
    """
    Returns for how long somebody may go on, by his clock, if another waits that long
    for the end of it, by his own. Any unit; rounded down.
    """
    return waited * SLOW // FAST


def waited(granted: int) -> int:
    """
    Returns for how long to wait for the end of what was granted. Any unit; rounded up.
    """
    return -(-granted * FAST // SLOW)
