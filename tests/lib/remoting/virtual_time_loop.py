"""
An event loop with real sockets, whose clock a test moves on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

__all__ = ["SteppedLoop", "move", "run", "settle", "stop_clock", "until"]

T = TypeVar("T")
WAIT_MAX_S = 20.0


class SteppedLoop(asyncio.SelectorEventLoop):
    """
    Its clock goes with the machine's, and ahead of it by what `move` added.
    """

    ahead = 0.0
    stopped_at: float | None = None

    def time(self) -> float:
        """
        Returns seconds, as every timer counts them.
        """
        now = super().time() if self.stopped_at is None else self.stopped_at
        return now + self.ahead


def run(main: Coroutine[Any, Any, T]) -> T:
    """
    Runs a test to its end, on a loop of its own.
    """
    with asyncio.Runner(loop_factory=SteppedLoop) as runner:
        return runner.run(main)


def move(milliseconds: float) -> None:
    """
    Lets time pass at once.
    """
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SteppedLoop)
    loop.ahead += milliseconds / 1000


def stop_clock() -> None:
    """
    From now on time passes by `move` alone, however slow the machine is.
    """
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SteppedLoop)
    loop.stopped_at = loop.time() - loop.ahead


async def settle() -> None:
    """
    Lets other tasks run, and the system deliver what was sent on loopback.
    """
    for _ in range(50):
        time.sleep(0.001)
        await asyncio.sleep(0)


async def until(holds: Callable[[], object]) -> None:
    """
    Lets other tasks run until *holds* is true, `WAIT_MAX_S` at most.
    """
    # The machine's time, not turns: a fast core takes many turns before a timer ends.
    end = time.monotonic() + WAIT_MAX_S
    while not holds():
        assert time.monotonic() < end, "it never held"
        await asyncio.sleep(0)
