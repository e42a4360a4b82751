"""
Whether a process stood still.
"""

from __future__ import annotations

import asyncio
from functools import partial

from lib.remoting.virtual_time_loop import move, run, until

from pystore.controller.server.pause_detector import STOOD_STILL_S, PauseDetector

LIMIT_NS = int(STOOD_STILL_S * 1_000_000_000)


def test_a_gap_between_two_looks_is_said_once() -> None:
    """Up to the limit a process was only busy."""
    now = [0]
    pause_detector = PauseDetector(lambda: now[0])

    assert not pause_detector.stood_still()
    now[0] += LIMIT_NS
    assert not pause_detector.stood_still()
    now[0] += LIMIT_NS + 1
    assert pause_detector.stood_still()
    assert not pause_detector.stood_still()


def test_a_process_that_runs_is_not_taken_for_one_that_stood_still() -> None:
    """Its loop looks often, whoever asks how seldom; and forgets no gap."""

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
                assert not pause_detector.stood_still()
        assert pause_detector.stood_still()
        running.cancel()

    run(main())
