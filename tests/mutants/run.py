"""
Makes each known mistake on purpose, and checks that a test fails.

A mutant is a change to a copy of this tree (``mutants.toml``): texts that occur in a
file exactly once, and their replacements. The mutant's tests run in the copy, and one
of them must fail. Without the change the same tests must pass. A mutant whose text no
longer occurs is stale: write it again.

    python tests/mutants/run.py [WORD ...]    only mutants with a word in their name
    python tests/mutants/run.py --sample 50   50 of them at random; --seed N repeats

Every mutant must apply, even those that are not run.

Rules: docs/crash-safety.md. Exit codes: 0 all were noticed, 1 one survived or is stale.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = Path(__file__).with_name("mutants.toml")
TIMEOUT_S = 120
LEFT_OUT = shutil.ignore_patterns(
    ".git",
    ".venv",
    ".ci",
    "build",
    "dist",
    "golden",
    "*.egg-info",
    "__pycache__",
    ".*cache",
)


class Stale(Exception):
    """
    A mutant that no longer applies, or does not build.
    """


@dataclass(frozen=True)
class Mutant:
    """
    A mistake, the place of its change, and the tests that must fail.

    Attributes:
        name: description of the mistake.
        file: path from the root.
        changes: pairs of a text that occurs once, and its replacement.
        tests: native programs (``test_log_sync``), or arguments of pytest.
    """

    name: str
    file: str
    changes: list[tuple[str, str]]
    tests: list[str]

    def mutated(self, tree: Path) -> str:
        """
        The text of its file with the mistake in it.

        Raises:
            Stale: the change does not apply.
        """
        text = (tree / self.file).read_text(encoding="utf-8")
        for old, new in self.changes:
            if text.count(old) != 1:
                raise Stale(
                    f"{self.file}: found {text.count(old)} times instead of once:"
                    f"\n{old}"
                )
            text = text.replace(old, new)
        return text

    def mutate(self, tree: Path) -> None:
        """
        Makes the change in a copy of the tree.
        """
        (tree / self.file).write_text(self.mutated(tree), encoding="utf-8")


def read_catalogue(words: Iterable[str]) -> list[Mutant]:
    """
    The mutants whose name contains one of the words; without words all.
    """
    with CATALOGUE.open("rb") as file:
        entries = tomllib.load(file)["mutant"]
    mutants = [
        Mutant(
            entry["name"],
            entry["file"],
            [(change["find"], change["replace"]) for change in entry["change"]],
            entry["tests"],
        )
        for entry in entries
    ]
    chosen = list(words)
    return [m for m in mutants if not chosen or any(w in m.name for w in chosen)]


def is_native(test: str) -> bool:
    """
    Whether a test is a program of tests/native.
    """
    return "/" not in test


def run(tree: Path, *command: str, timeout_s: int = TIMEOUT_S) -> tuple[int, str]:
    """
    Runs a command that imports the modules of a tree.

    Raises:
        TimeoutExpired: the command took too long.
    """
    environment = os.environ | {
        "PYTHONPATH": f"{tree}:{tree / 'tests'}",
        "PYTHONSAFEPATH": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        command,
        cwd=tree,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout_s,
        check=False,
        text=True,
        errors="replace",
    )
    return done.returncode, done.stdout


def build_native(tree: Path, programs: Iterable[str]) -> None:
    """
    Builds native programs, incrementally.
    """
    folder = tree / "tests" / "native"
    targets = [f"build/plain/{program}" for program in programs]
    if targets:
        code, output = run(
            tree, "make", "-sC", str(folder), "FLAVOUR=plain", "-j2", *targets
        )
        if code != 0:
            raise Stale(f"does not build:\n{output}")


def build_core(tree: Path, mutant: Mutant) -> None:
    """
    Builds the extension anew, if the mistake is in it and a test of pytest runs.
    """
    if mutant.file.startswith("csrc/") and not all(map(is_native, mutant.tests)):
        command = ("setup.py", "-q", "build_ext", "--inplace", "--force")
        code, output = run(tree, sys.executable, *command)
        if code != 0:
            raise Stale(f"does not build:\n{output}")


def failure_of(tree: Path, test: str, *others: str) -> str:
    """
    The name of the first failing case of a test; empty: all pass. Several tests of
    pytest run together.
    """
    command = [str(tree / "tests/native/build/plain" / test)]
    pattern = r"^FAILED (.*?)(?:: \d+ checks.*)?$"
    if not is_native(test):
        options = ("-xq", "--no-header", "-p", "no:cacheprovider")
        command = [sys.executable, "-m", "pytest", *options, test, *others]
        pattern = r"^FAILED \S*?::(\S+)"
    limit_s = TIMEOUT_S * (1 + len(others))
    try:
        code, output = run(tree, *command, timeout_s=limit_s)
    except subprocess.TimeoutExpired:
        # A test waits for an event that the mistake prevents.
        return f"{test}: no end after {limit_s} s"
    if code == 0:
        return ""
    found = re.search(pattern, output, re.M)
    if not is_native(test) and not found:
        raise Stale(f"{test} does not run:\n{output}")
    return f"{test}: {found[1]}" if found else f"{test}: exit code {code}"


def make_base(folder: Path, mutants: list[Mutant]) -> Path:
    """
    A copy of the tree, in which every test has passed.
    """
    base = folder / "base"
    shutil.copytree(ROOT, base, symlinks=True, ignore=LEFT_OUT)
    (base / "tests" / "golden").symlink_to(ROOT / "tests" / "golden")
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    build_native(base, filter(is_native, tests))
    code, output = run(
        base, sys.executable, "-c", "import pystore._core as c; print(c.__file__)"
    )
    if code != 0 or not output.startswith(str(base)):
        raise Stale(f"the copy does not use its own core: {output}")
    # Native programs run alone; the others in as many runs as there are processors.
    python = [test for test in tests if not is_native(test)]
    processors = os.cpu_count() or 1
    groups = [[test] for test in tests if is_native(test)]
    groups += filter(None, (python[n::processors] for n in range(processors)))
    with ThreadPoolExecutor(processors) as pool:
        for failure in pool.map(lambda group: failure_of(base, *group), groups):
            if failure:
                raise Stale(f"fails without any mutant: {failure}")
    return base


def try_mutant(base: Path, mutant: Mutant, number: int) -> tuple[str, float]:
    """
    Returns the test that noticed a mutant, and the seconds that it took.
    """
    begun = time.monotonic()
    tree = base.with_name(f"mutant-{number}")
    shutil.copytree(base, tree, symlinks=True)
    try:
        mutant.mutate(tree)
        build_native(tree, filter(is_native, mutant.tests))
        build_core(tree, mutant)
        noticed = next(filter(None, (failure_of(tree, t) for t in mutant.tests)), "")
    finally:
        shutil.rmtree(tree, ignore_errors=True)
    return noticed, time.monotonic() - begun


def choose() -> list[Mutant]:
    """
    The mutants that the command line selects. All of them apply.

    Raises:
        Stale: one does not apply.
    """
    parser = argparse.ArgumentParser(description="Checks that tests notice mistakes.")
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--sample", type=int, help="number of random mutants")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    chosen = parser.parse_args()
    mutants = read_catalogue(chosen.words)
    for mutant in mutants:
        mutant.mutated(ROOT)
    if chosen.sample is None or chosen.sample >= len(mutants):
        return mutants
    print(
        f"{chosen.sample} of {len(mutants)} mutants; --seed {chosen.seed} repeats them"
    )
    return random.Random(chosen.seed).sample(mutants, chosen.sample)


def main() -> int:
    """
    Prints the table, and returns the exit code.
    """
    begun = time.monotonic()
    bad = 0
    with tempfile.TemporaryDirectory(prefix="pystore-mutants-") as folder:
        try:
            mutants = choose()
            base = make_base(Path(folder), mutants)
        except Stale as reason:
            # Tests that fail without a mutant show nothing.
            print(reason)
            return 1
        print(
            f"{len(mutants)} mutants; their tests pass without them "
            f"({time.monotonic() - begun:.0f} s)\n"
        )
        width = max(len(mutant.name) for mutant in mutants)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            runs = [pool.submit(try_mutant, base, m, n) for n, m in enumerate(mutants)]
            for mutant, result in zip(mutants, runs, strict=True):
                try:
                    noticed, seconds = result.result()
                    line = noticed or "SURVIVED"
                except Stale as reason:
                    # A stale mutant tests nothing: as bad as a survivor.
                    noticed, seconds, line = "", 0.0, f"STALE: {reason}"
                bad += not noticed
                print(f"{mutant.name:{width}}  {seconds:5.1f} s  {line}", flush=True)
    print(
        f"\n{len(mutants) - bad} of {len(mutants)} mutants noticed "
        f"in {time.monotonic() - begun:.0f} s"
    )
    return 1 if bad or not mutants else 0


if __name__ == "__main__":
    sys.exit(main())
