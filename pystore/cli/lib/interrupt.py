"""
Ctrl-C that waits until an append is counted.

An exception raised by a signal could separate an append from its count, and then the
count would be wrong. Here a signal only ends the wait for input; the append in progress
is finished and counted.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from pystore.cli.lib.exit_codes import DONE, INTERRUPTED

__all__ = [
    "Interruption",
    "interruptible",
    "service_exit_code",
    "signals_to_handle",
]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def signals_to_handle() -> list[signal.Signals]:
    """
    Returns the signals that ask a command to stop: Ctrl-C, a service manager, and the
    end of the terminal unless ``nohup`` ignores it.
    """
    return [
        number
        for number in _SIGNALS
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN
    ]


def service_exit_code(number: int) -> int:
    """
    Returns the exit code of a service that a signal stopped cleanly: 0, except for
    Ctrl-C. A service manager counts any other code as a failure.
    """
    return INTERRUPTED if number == signal.SIGINT else DONE


class Interruption:
    """
    Whether a signal asked the process to stop. For the main thread.

    Attributes:
        signal_number: the signal that arrived; 0: none did.
    """

    def __init__(self, wakeup: int) -> None:
        self._wakeup = wakeup
        self.signal_number = 0

    def note(self, number: int, _frame: FrameType | None) -> None:
        """
        The signal handler: keeps the number.
        """
        self.signal_number = number

    @property
    def exit_code(self) -> int:
        """
        The code that a shell reports for a process that the signal ended.
        """
        return 128 + self.signal_number

    def read(self, descriptor: int, size: int) -> bytes | None:
        """
        Reads up to *size* bytes; ``None``: a signal asked to stop.

        Raises:
            OSError: reading failed.
        """
        if not self.signal_number:
            select.select([descriptor, self._wakeup], [], [])
        return None if self.signal_number else os.read(descriptor, size)


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """
    Inside the block, SIGINT, SIGTERM and SIGHUP only set the signal number.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    interruption = Interruption(reading)
    before = {
        number: signal.signal(number, interruption.note)
        for number in signals_to_handle()
    }
    woken = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield interruption
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)
