"""
Random schedules of AutoRecovery in a minute: queue, Auditors and workers over records
in memory, 200 steps each, with all invariants of the random tests
(`lib.autorecovery.repair_schedule`).

One process for each processor, with seeds of its own, as the random tests are run for
long. A schedule that breaks an invariant fails the bench, and names its seed.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from random import Random

import pytest
from contest import Figure
from lib.autorecovery.repair_schedule import run_schedule
from table import Table

LEAST = 5_000
"""Schedules a minute."""

ROUNDS = 5
ROUND_S = 12.0
APART = 1 << 24  # more than the schedules of a round


def _rates(seed: int, seconds: float) -> tuple[float, float]:
    """
    Runs the schedules of rising seeds for some time; returns how many a minute of the
    processor, and of the clock.
    """
    begun_s, processor_s, count = time.monotonic(), time.process_time(), 0
    while time.monotonic() - begun_s < seconds or not count:
        run_schedule(seed + count)
        count += 1
    taken_s = time.process_time() - processor_s, time.monotonic() - begun_s
    return 60 * count / taken_s[0], 60 * count / taken_s[1]


@pytest.mark.benchmark(group="recovery schedules")
def test_thousands_of_random_schedules_take_a_minute(
    is_smoke: bool, table: Table
) -> None:
    """
    All processors together, by their time: other work on the machine does not count,
    and nothing waits here. Each process is warm before it is measured.
    """
    processors = os.cpu_count() or 1
    first = Random().randrange(1 << 30)
    # Not forked: a process of pytest has threads.
    context = multiprocessing.get_context("spawn")
    rates: list[float] = []
    by_clock: list[float] = []
    with ProcessPoolExecutor(processors, mp_context=context) as pool:
        for number in range(-1, 1 if is_smoke else ROUNDS):
            # The first round is not measured.
            seconds = 0.0 if is_smoke else 1.0 if number < 0 else ROUND_S
            seeds = [
                first + (number * processors + n) * APART for n in range(processors)
            ]
            print(f"first seeds {seeds}")
            found = list(pool.map(_rates, seeds, [seconds] * processors))
            if number >= 0:
                rates.append(sum(one for one, _ in found))
                by_clock.append(sum(one for _, one in found))
    told = {
        "a minute": ", ".join(f"{one:,.0f}" for one in rates),
        "by the clock": f"{max(by_clock):,.0f}",
        "processors": f"{processors}",
        "first seed": f"{first}",
    }
    shares = Figure(tuple(one / LEAST for one in rates))
    table.at_least("schedules of 200 steps, of 5,000 a minute", 1, shares, told)
