"""
Switches each safety rule off in a copy of this tree, and says whether chaos or the
simulation finds a violation in time.

    python tests/chaos/switched_off.py [WORD ...] [--minutes 5]

Exit codes: 0 each was found, 1 one was not.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests")]

from mutants.run import LEFT_OUT, Mutant, run  # noqa: E402

CATALOGUE = Path(__file__).with_name("switched_off.toml")
_ROUND_S = 45


def rules() -> Iterator[tuple[Mutant, dict[str, Any]]]:
    """
    Yields each change, and its entry.
    """
    with CATALOGUE.open("rb") as file:
        entries = tomllib.load(file)["rule"]
    for one in entries:
        changes = [(change["find"], change["replace"]) for change in one["change"]]
        yield Mutant(one["name"], one["file"], changes, []), one


def by_chaos(tree: Path, entry: dict[str, Any], minutes: float) -> str:
    """
    Returns the first violation that chaos finds; empty: none.
    """
    end_s = time.monotonic() + minutes * 60
    only = [word for one in entry["faults"] for word in ("--only", one)]
    while time.monotonic() < end_s:
        seed = random.SystemRandom().randrange(10**9)
        words = ["--seconds", str(_ROUND_S), "--seed", str(seed), *only]
        words += ["--controllers", str(entry.get("controllers", 1))]
        script = str(tree / "tests/chaos/run.py")
        code, output = run(tree, sys.executable, script, *words, timeout_s=1_800)
        if code == 1:
            line = output[output.index("VIOLATION") :].splitlines()
            return f"seed {seed}: {line[0] if len(line[0]) > 60 else line[-2]}"[:300]
    return ""


def by_simulation(tree: Path, minutes: float) -> str:
    """
    Returns the first violation that the simulation finds; empty: none.
    """
    end_s = time.monotonic() + minutes * 60
    words = ("-m", "pytest", "-xq", "-p", "no:cacheprovider", "tests/sim")
    code, output = run(tree, sys.executable, *words, timeout_s=1_800)
    if code == 1:
        return next(line for line in output.splitlines() if line.startswith("FAILED"))
    script = str(tree / "tests/sim/run.py")
    while time.monotonic() < end_s:
        first = random.SystemRandom().randrange(10**6)
        words = ("--first", str(first), "--seeds", "100000", "--seconds", str(_ROUND_S))
        _, output = run(tree, sys.executable, script, *words, timeout_s=1_800)
        for line in output.splitlines():
            if line.startswith("seed "):
                return line[:300]
    return ""


def main() -> int:
    """
    Tries the rules that the arguments choose; returns the exit code.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--minutes", type=float, default=5)
    asked = parser.parse_args()
    missed = 0
    for mutant, entry in rules():
        if asked.words and not any(word in mutant.name for word in asked.words):
            continue
        with tempfile.TemporaryDirectory(prefix="switched-off-") as folder:
            tree = Path(folder) / "tree"
            shutil.copytree(ROOT, tree, symlinks=True, ignore=LEFT_OUT)
            (tree / "tests" / "golden").symlink_to(ROOT / "tests" / "golden")
            mutant.mutate(tree)
            begun, by = time.monotonic(), "chaos"
            found = entry["faults"] and by_chaos(tree, entry, asked.minutes)
            if not found:
                begun, by = time.monotonic(), "simulation"
                found = by_simulation(tree, asked.minutes)
        took_s = time.monotonic() - begun
        missed += not found
        told = f"found by {by} in {took_s:.0f} s: {found}" if found else "NOT FOUND"
        print(f"{mutant.name}: {told}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
