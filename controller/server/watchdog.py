"""
Ends a controller whose event loop stands still (C2a).

ZooKeeper's client keeps its session alive by a thread of its own, and the lock of LMDB
lasts as long as the process. So without the watchdog a controller that answers nobody
would lead for ever.

Source: C2a; docs/controller.md, threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

__all__ = ["Watchdog"]

_STEPS = 20
"""Steps within the limit: the loop is asked once in each."""


class Watchdog:
    """
    A thread that watches one event loop. A context manager, on that loop.

    It counts its own steps and reads no clock, so a process that was stopped as a whole
    (SIGSTOP, a suspended machine) goes on.

    Args:
        limit_s: how long the loop may stand still.
        end: called in the watchdog's thread with the reason, once: it ends the process.
    """

    def __init__(self, limit_s: float, end: Callable[[str], object]) -> None:
        self._limit_s = limit_s
        self._end = end
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turns = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="pystore-watchdog", daemon=True
        )

    def __enter__(self) -> Watchdog:
        self._loop = asyncio.get_running_loop()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()

    def _turn(self) -> None:
        self._turns += 1

    def _run(self) -> None:
        assert self._loop is not None
        seen, steps = -1, 0
        while not self._stop.wait(self._limit_s / _STEPS):
            if self._turns != seen:
                seen, steps = self._turns, 0
                try:
                    self._loop.call_soon_threadsafe(self._turn)
                except RuntimeError:
                    # The loop was closed.
                    return
                continue
            steps += 1
            if steps >= _STEPS:
                self._end(
                    f"the event loop stood still for {self._limit_s:g} s: this "
                    "controller ends, so that another one can lead"
                )
                return
