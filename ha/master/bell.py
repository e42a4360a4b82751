"""
Wakes threads that wait for the log to grow, and costs nothing while none does.

Who appends rings after the bytes are published; that is one addition and one look
at a number as long as every sender is busy. A sender remembers the count of rings,
looks at the log, and sleeps only if nobody has rung since.
"""

from __future__ import annotations

import threading

__all__ = ["Bell"]


class Bell:
    """
    Any number of threads ring, any number wait.

    Attributes:
        rings: changes with each ring. To be read before whatever decides to wait.
    """

    def __init__(self) -> None:
        self.rings = 0
        self._sleepers = 0
        self._condition = threading.Condition(threading.Lock())

    def ring(self) -> None:
        """
        Something changed: whoever sleeps looks again.
        """
        # Two rings at once may count as one: the number changes all the same, and
        # both changes were made before it did.
        self.rings += 1
        if self._sleepers:
            with self._condition:
                self._condition.notify_all()

    def wait(self, rings: int, timeout_ms: int) -> None:
        """
        Sleeps until somebody rings, or the time is up; not at all if somebody rang.

        Args:
            rings: the count before the caller looked.
            timeout_ms: at most so long; 0 or less: not at all.
        """
        if timeout_ms <= 0:
            return
        with self._condition:
            self._sleepers += 1
            try:
                if self.rings == rings:
                    self._condition.wait(timeout_ms / 1000)
            finally:
                self._sleepers -= 1
