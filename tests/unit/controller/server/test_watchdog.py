"""
The watchdog of an event loop (C2a).
"""

from __future__ import annotations

import asyncio
import threading
import time

from pystore.controller.server.watchdog import Watchdog

LIMIT_S = 0.2


def test_a_loop_that_stands_still_is_told_once() -> None:
    """
    With how long it stood still.
    """

    async def main() -> list[str]:
        told: list[str] = []
        ended = threading.Event()

        def end(reason: str) -> None:
            told.append(reason)
            ended.set()

        with Watchdog(LIMIT_S, end):
            await asyncio.sleep(0)
            assert ended.wait(20)
        return told

    (reason,) = asyncio.run(main())
    assert "the event loop stood still for 0.2 s" in reason


def test_a_busy_loop_that_takes_turns_is_left_alone() -> None:
    """
    Each turn is shorter than the limit, all together are much longer.
    """

    async def main() -> list[str]:
        told: list[str] = []
        with Watchdog(5 * LIMIT_S, told.append):
            end = time.monotonic() + 7 * LIMIT_S
            while time.monotonic() < end:
                time.sleep(LIMIT_S / 10)
                await asyncio.sleep(0)
        return told

    assert [] == asyncio.run(main())
