"""
Wakes threads that wait for the log to grow, and costs nothing while none does.

The core rings after each publication; Python rings where something else changed. A
sender remembers the count of rings, looks at the log, and sleeps only if nobody has
rung since. Who is about to wait for what senders do appends without waking them, and
hurries: what they would do is done in that thread, and whom that leaves something is
woken then. Else each append would wake threads that find nothing left to do, and
stand in the way of those that have.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from pystore.core.log_writer import LogHandle
from pystore.core.waits import OffsetWaiters

__all__ = ["Notifier"]


class Notifier:
    """
    Any number of threads ring, any number wait.

    Args:
        log: each of its publications rings; ``None``: only `ring` does.
    """

    def __init__(self, log: LogHandle | None = None) -> None:
        # Not in line: there are as many senders as slaves, and each has work to do.
        self._waits = OffsetWaiters(1, in_line=False)
        self._lock = threading.Lock()
        self._helpers: tuple[Callable[[], bool], ...] = ()
        self._log = log
        if log is not None:
            self._waits.notify_on_publish(log)

    @property
    def rings(self) -> int:
        """
        Changes with each ring. To be read before whatever decides to wait.
        """
        return self._waits.mark(0)

    @property
    def sleepers(self) -> int:
        """
        How many threads sleep.
        """
        return self._waits.waiting

    def ring(self) -> None:
        """
        Something changed: whoever sleeps looks again.
        """
        self._waits.notify(0)

    def hurry(self) -> None:
        """
        For one that holds no lock and is about to wait, behind an append that woke
        nobody: what helpers do, they do now, and who sleeps is woken for the rest.
        """
        is_done = bool(self._helpers)
        for helper in self._helpers:
            is_done &= helper()
        if not is_done:
            self.ring()

    def help(self, helper: Callable[[], bool]) -> None:
        """
        Has it called with each `hurry`, in that thread. It waits for nothing and
        raises nothing, and answers whether it left nothing to who sleeps.
        """
        with self._lock:
            self._helpers = (*self._helpers, helper)

    def help_no_more(self, helper: Callable[[], bool]) -> None:
        """
        Has it called no more, but by who hurries at this moment.
        """
        with self._lock:
            self._helpers = tuple(one for one in self._helpers if one != helper)

    def wait(self, rings: int, timeout_ms: int) -> None:
        """
        Sleeps until somebody rings, or the time is up; not at all if somebody rang.

        Args:
            rings: the count before the caller looked.
            timeout_ms: at most so long; 0 or less: not at all.
        """
        if timeout_ms > 0:
            self._waits.wait(0, rings + 1, timeout_ms)

    def close(self) -> None:
        """
        The log rings no more; to be called before the bell or the log goes.
        """
        if self._log is not None:
            self._waits.stop_notifying(self._log)
            self._log = None
