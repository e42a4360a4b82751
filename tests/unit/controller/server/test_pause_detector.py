"""
Detecting a pause of the process.
"""

from __future__ import annotations

import asyncio
from functools import partial

from lib.remoting.virtual_time_loop import move, run, until

from pystore.controller.server.pause_detector import PAUSE_MIN_S, PauseDetector

LIMIT_NS = int(PAUSE_MIN_S * 1_000_000_000)


def test_a_pause_is_reported_once() -> None:
    """Up to the limit the process was only busy."""
    now = [0]
    pause_detector = PauseDetector(lambda: now[0])

    assert not pause_detector.was_paused()
    now[0] += LIMIT_NS
    assert not pause_detector.was_paused()
    now[0] += LIMIT_NS + 1
    assert pause_detector.was_paused()
    assert not pause_detector.was_paused()


def test_a_running_process_is_not_reported_as_paused() -> None:
    """The loop reads the clock often, for any rate of calls, and misses no pause."""

    async def main() -> None:
        now, looks = [0], 0

        def clock_ns() -> int:
            nonlocal looks
            looks += 1
            return now[0]

        pause_detector = PauseDetector(clock_ns)
        running = asyncio.create_task(pause_detector.run())
        for gap_ns in (*[LIMIT_NS] * 5, LIMIT_NS + 1, LIMIT_NS):
            next_look = looks + 1
            now[0] += gap_ns
            await asyncio.sleep(0)  # the task arms its timer before the clock moves
            move(250)
            await until(partial(lambda wanted: looks >= wanted, next_look))
            if gap_ns == LIMIT_NS and now[0] <= 5 * LIMIT_NS:
                assert not pause_detector.was_paused()
        assert pause_detector.was_paused()
        running.cancel()

    run(main())
