"""
Wakes threads that wait for the log to grow; costs nothing while no thread waits.

The core notifies after each publication, Python where something else changed. A
sender reads the count of notifications, reads the log, and sleeps only if the count
is still the same. An appender that is about to wait for slaves appends without
waking the senders. It then runs their helpers in its own thread, and only senders
with work left are woken. Otherwise each append would wake threads that find nothing
to do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from pystore.core.log_writer import LogHandle
from pystore.core.waits import OffsetWaiters

__all__ = ["Notifier"]


class Notifier:
    """
    Any number of threads notify, any number wait.

    Args:
        log: each of its publications notifies; ``None``: only `notify` does.
    """

    def __init__(self, log: LogHandle | None = None) -> None:
        # All waiters wake at once: each sender has a slave of its own to serve.
        self._waits = OffsetWaiters(1, one_by_one=False)
        self._lock = threading.Lock()
        self._helpers: tuple[Callable[[], bool], ...] = ()
        self._log = log
        if log is not None:
            self._waits.notify_on_publish(log)

    @property
    def count(self) -> int:
        """
        Rises with each notification. Read it before you decide to wait.
        """
        return self._waits.mark(0)

    @property
    def waiting(self) -> int:
        """
        How many threads sleep now.
        """
        return self._waits.waiting

    def notify(self) -> None:
        """
        Wakes all waiters: something changed.
        """
        self._waits.notify(0)

    def run_helpers(self) -> None:
        """
        Runs all helpers, and wakes the waiters if a helper left work.

        For a caller that holds no lock and waits next, after an append that woke no
        waiter.
        """
        is_done = bool(self._helpers)
        for helper in self._helpers:
            is_done &= helper()
        if not is_done:
            self.notify()

    def add_helper(self, helper: Callable[[], bool]) -> None:
        """
        Adds a helper, which each `run_helpers` calls in its thread.

        Args:
            helper: does not wait and does not raise; returns whether it left no work
                to its sleeping thread.
        """
        with self._lock:
            self._helpers = (*self._helpers, helper)

    def remove_helper(self, helper: Callable[[], bool]) -> None:
        """
        Removes a helper. A `run_helpers` that has begun may still call it.
        """
        with self._lock:
            self._helpers = tuple(one for one in self._helpers if one != helper)

    def wait(self, seen: int, timeout_ms: int) -> None:
        """
        Sleeps until a notification or the timeout; returns at once if the count is
        no longer *seen*.

        Args:
            seen: the count before the caller read the log.
            timeout_ms: how long at most; 0 or less: not at all.
        """
        if timeout_ms > 0:
            self._waits.wait(0, seen + 1, timeout_ms)

    def close(self) -> None:
        """
        Ends the notifications of the log; call it before this or the log is freed.
        """
        if self._log is not None:
            self._waits.stop_notifying(self._log)
            self._log = None
