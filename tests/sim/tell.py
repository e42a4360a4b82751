"""
Carries out histories that are told as text.

    python tests/sim/tell.py [--seed 0] [--lines] FILE ...

Without files it reads lines from standard input, a seed and a file each, and answers
each with a line of JSON: the error, or nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from sim.clock import restart_with_clock  # noqa: E402

restart_with_clock()

from sim import standard_library  # noqa: E402

standard_library.install()

from sim import core_waits  # noqa: E402
from sim.scenario import Scenario  # noqa: E402
from sim.world import FOLDER  # noqa: E402

core_waits.install()


def told(scenario: Scenario) -> str:
    """
    Carries out one history; returns what went another way, or nothing.
    """
    try:
        scenario.run()
    except AssertionError as error:
        # What is expected is not so.
        return f"{type(error).__name__}: {error}"
    except Exception:
        # A defect of the simulation.
        return traceback.format_exc()
    return ""


def main() -> int:
    """
    Runs what the arguments say; returns the exit code.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lines", action="store_true", help="of all processes")
    parser.add_argument("files", nargs="*", type=Path)
    asked = parser.parse_args()
    if not asked.files:
        for line in sys.stdin:
            seed, _, name = line.rstrip("\n").partition(" ")
            print(json.dumps(told(Scenario(Path(name), int(seed), FOLDER))), flush=True)
        return 0
    failed = 0
    for path in asked.files:
        begun = time.monotonic()
        scenario = Scenario(path, asked.seed, FOLDER)
        error = told(scenario)
        failed += bool(error)
        seconds = time.monotonic() - begun
        print(f"{path.stem} {seconds:.1f} s: {error or 'ok'}", flush=True)
        if asked.lines:
            print(*scenario.lines(), sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
