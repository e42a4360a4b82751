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


def _rate(seed: int, seconds: float) -> float:
    """
    Runs the schedules of rising seeds for some time; returns how many a minute.
    """
    begun_s, count = time.monotonic(), 0
    while (taken_s := time.monotonic() - begun_s) < seconds or not count:
        run_schedule(seed + count)
        count += 1
    return 60 * count / taken_s


@pytest.mark.benchmark(group="recovery schedules")
def test_thousands_of_random_schedules_take_a_minute(
    is_smoke: bool, table: Table
) -> None:
    """
    All processors together; each process is warm before it is measured.
    """
    processors = os.cpu_count() or 1
    first = Random().randrange(1 << 30)
    # Not forked: a process of pytest has threads.
    context = multiprocessing.get_context("spawn")
    rates: list[float] = []
    with ProcessPoolExecutor(processors, mp_context=context) as pool:
        for number in range(-1, 1 if is_smoke else ROUNDS):
            # The first round is not measured.
            seconds = 0.0 if is_smoke else 1.0 if number < 0 else ROUND_S
            seeds = [
                first + (number * processors + n) * APART for n in range(processors)
            ]
            print(f"first seeds {seeds}")
            found = list(pool.map(_rate, seeds, [seconds] * processors))
            rates += [sum(found)] if number >= 0 else []
    told = {
        "a minute": ", ".join(f"{one:,.0f}" for one in rates),
        "processors": f"{processors}",
        "first seed": f"{first}",
    }
    shares = Figure(tuple(one / LEAST for one in rates))
    table.at_least("schedules of 200 steps, of 5,000 a minute", 1, shares, told)
