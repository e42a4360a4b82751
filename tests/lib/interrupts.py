"""
Ctrl-C at a random instant.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Alarm:
    """
    Raises `KeyboardInterrupt` once, some time after ``arm``; not after ``disarm``.
    """

    def __init__(self) -> None:
        self.is_armed = False

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        """
        The handler of the signal.
        """
        if self.is_armed:
            self.is_armed = False
            raise KeyboardInterrupt

    def arm(self, delay_s: float) -> None:
        """
        Begins the wait, in seconds.
        """
        self.is_armed = True
        signal.setitimer(signal.ITIMER_REAL, delay_s)

    def disarm(self) -> None:
        """
        Ends the wait; a signal that comes still is passed over.
        """
        self.is_armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)


@contextmanager
def alarms() -> Iterator[Alarm]:
    """
    An alarm of the main thread.

    An interrupt that hits a callback of a weak reference or a ``__del__`` ends that
    callback alone, as Python has it: the code under test goes on.
    """
    alarm = Alarm()
    report = sys.unraisablehook

    def pass_over(unraisable: sys.UnraisableHookArgs) -> None:
        if unraisable.exc_type is not KeyboardInterrupt:
            report(unraisable)

    before = signal.signal(signal.SIGALRM, alarm.handle)
    sys.unraisablehook = pass_over
    try:
        yield alarm
    finally:
        alarm.disarm()
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = report
