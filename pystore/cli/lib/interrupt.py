"""
Ctrl-C that waits for its turn.

A signal that raises could come between an append and its count, and then the
count would be wrong. So here a signal only wakes up who waits for input; what is
being appended is finished and counted.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Interruption", "interruptible"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """
    Whether somebody asked to stop. The main thread's.

    Attributes:
        signal_number: the signal that came, 0 if none did.
    """

    def __init__(self, wakeup: int) -> None:
        self._wakeup = wakeup
        self.signal_number = 0

    def note(self, number: int, _frame: FrameType | None) -> None:
        """
        Is called by the signal.
        """
        self.signal_number = number

    @property
    def exit_code(self) -> int:
        """
        As a shell reports a process that died of the signal.
        """
        return 128 + self.signal_number

    def read(self, descriptor: int, size: int) -> bytes | None:
        """
        Reads up to *size* bytes; ``None``: somebody asked to stop.

        Raises:
            OSError: reading failed.
        """
        if not self.signal_number:
            select.select([descriptor, self._wakeup], [], [])
        return None if self.signal_number else os.read(descriptor, size)


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """
    Holds back SIGINT and SIGTERM while the block lasts.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    interruption = Interruption(reading)
    before = {number: signal.signal(number, interruption.note) for number in _SIGNALS}
    woken = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield interruption
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)
