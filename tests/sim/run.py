"""
Runs seeds of the simulation and says how it went.

    python tests/sim/run.py --seeds 100 [--first 0] [--minutes 3] [--seconds 60]

One line per seed that fails, with the command that runs it again. Exit codes: 0 all
held, 1 something did not.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sim.faults import run_seed

__all__ = ["main"]


def try_seed(seed: int, minutes: int) -> tuple[str, Counter[str]]:
    """
    Runs one seed; answers what was violated, or nothing, and what was counted.
    """
    try:
        cluster = run_seed(seed, minutes)
    except Exception as error:  # whatever it is, the seed is to be told
        return f"{type(error).__name__}: {error}", Counter()
    found: Counter[str] = Counter(cluster.world.checker.outcomes)
    found["simulated ms"] = cluster.now
    found["appends"], found["faults"] = cluster.appends, cluster.faults
    found["elections"] = len(cluster.world.ledger.elections)
    found["events"] = cluster.world.clock.events
    world = cluster.world
    found["links by the legacy protocol"] = world.legacy_links
    found["cuts by slaves"] = world.cuts
    found.update({f"excluded by {k}": n for k, n in world.checker.excluded.items()})
    found["seeds with legacy links"] = bool(world.legacy_links)
    found["seeds with both protocols"] = 0 < world.legacy_links < world.links
    found["seeds with skewed clocks"] = world.setting.is_skewed
    found["seeds with later elections"] = found["elections"] > 1
    found["seeds with cuts"] = bool(world.cuts)
    return "", found


def main() -> int:
    """
    Runs what the arguments say; answers the exit code.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--minutes", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    begun, failed, total, done = time.monotonic(), 0, Counter[str](), 0
    seeds = iter(range(asked.first, asked.first + asked.seeds))
    running: dict[Future[tuple[str, Counter[str]]], int] = {}
    with ProcessPoolExecutor(asked.jobs) as pool:
        for _ in count():
            in_time = time.monotonic() - begun < asked.seconds
            while in_time and len(running) < 2 * asked.jobs:
                seed = next(seeds, None)
                if seed is None:
                    break
                running[pool.submit(try_seed, seed, asked.minutes)] = seed
            if not running:
                break
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for one in ended:
                seed, (violation, found) = running.pop(one), one.result()
                done += 1
                total += found
                if violation:
                    failed += 1
                    print(f"seed {seed}: {violation}")
                    print(f"    again: make sim FIRST={seed} SEEDS=1", flush=True)
    seconds = time.monotonic() - begun
    minutes = total["simulated ms"] / 60_000
    for name in sorted(total):
        if name != "simulated ms":
            print(f"{name:42} {total[name]:10}")
    print(
        f"{done} seeds from {asked.first} on, {failed} failed; {minutes:.0f} simulated "
        f"minutes in {seconds:.0f} s: {minutes * 60 / seconds:.0f} a minute, each with "
        f"{total['appends'] / max(minutes, 1):.0f} appends and "
        f"{total['faults'] / max(minutes, 1):.1f} faults"
    )
    return 1 if failed or not done else 0


if __name__ == "__main__":
    sys.exit(main())
