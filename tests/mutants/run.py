"""
Makes each known mistake on purpose, and asks the tests whether they notice.

A mutant is a change to a copy of this tree (``mutants.toml``): pieces of text that
stand in a file exactly once, and what stands there instead. The tests that should
notice it run there; one must fail. The same tests pass without the change, or
nothing would be shown. A mutant whose text is gone is stale: write it anew.

    python tests/mutants/run.py [WORD ...]    only mutants with a word in their name
    python tests/mutants/run.py --sample 50   so many of them, at random; --seed N again

All of them must still be possible to make, whichever are run.

Rules: docs/crash-safety.md. Exit codes: 0 all noticed, 1 one survived or is stale.
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
    ".git", ".venv", ".ci", "bench", "build", "dist", "golden", "__pycache__", ".*cache"
)


class Stale(Exception):
    """
    A mutant that cannot be made any more, or that does not build.
    """


@dataclass(frozen=True)
class Mutant:
    """
    A mistake: what it is called, where it is made, who should notice.

    Attributes:
        name: the mistake in words.
        file: from the root.
        changes: pairs of text, each found once, and what replaces it.
        tests: native programs (``test_log_sync``), or what pytest takes.
    """

    name: str
    file: str
    changes: list[tuple[str, str]]
    tests: list[str]

    def mutated(self, tree: Path) -> str:
        """
        The text of its file with the mistake in it.

        Raises:
            Stale: it cannot be made.
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
        Make the mistake in a copy of the tree.
        """
        (tree / self.file).write_text(self.mutated(tree), encoding="utf-8")


def read_catalogue(words: Iterable[str]) -> list[Mutant]:
    """
    The mutants whose name has one of the words, or all.
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


def run(tree: Path, *command: str) -> tuple[int, str]:
    """
    Run in a tree whose modules come first.

    Raises:
        TimeoutExpired: it hangs.
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
        timeout=TIMEOUT_S,
        check=False,
        text=True,
        errors="replace",
    )
    return done.returncode, done.stdout


def build_native(tree: Path, programs: Iterable[str]) -> None:
    """
    Build native programs; what was built before and did not change stays.
    """
    folder = tree / "tests" / "native"
    targets = [f"build/plain/{program}" for program in programs]
    if targets:
        code, output = run(
            tree, "make", "-sC", str(folder), "FLAVOUR=plain", "-j2", *targets
        )
        if code != 0:
            raise Stale(f"does not build:\n{output}")


def failure_of(tree: Path, test: str, *others: str) -> str:
    """
    The name of the first case of a test that fails, or nothing. Others of pytest run
    with one of pytest.
    """
    command = [str(tree / "tests/native/build/plain" / test)]
    pattern = r"^FAILED (.*?)(?:: \d+ checks.*)?$"
    if not is_native(test):
        options = ("-xq", "--no-header", "-p", "no:cacheprovider")
        command = [sys.executable, "-m", "pytest", *options, test, *others]
        pattern = r"^FAILED \S*?::(\S+)"
    try:
        code, output = run(tree, *command)
    except subprocess.TimeoutExpired:
        # A test that waits for what the mistake never does.
        return f"{test}: no end after {TIMEOUT_S} s"
    if code == 0:
        return ""
    found = re.search(pattern, output, re.M)
    if not is_native(test) and not found:
        raise Stale(f"{test} does not run:\n{output}")
    return f"{test}: {found[1]}" if found else f"{test}: exit code {code}"


def make_base(folder: Path, mutants: list[Mutant]) -> Path:
    """
    A copy of the tree in which every test has passed.
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
    # Natives by themselves; the others in as many runs as there are processors.
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
    Answers who noticed a mutant, and after how many seconds.
    """
    begun = time.monotonic()
    tree = base.with_name(f"mutant-{number}")
    shutil.copytree(base, tree, symlinks=True)
    try:
        mutant.mutate(tree)
        build_native(tree, filter(is_native, mutant.tests))
        noticed = next(filter(None, (failure_of(tree, t) for t in mutant.tests)), "")
    finally:
        shutil.rmtree(tree, ignore_errors=True)
    return noticed, time.monotonic() - begun


def choose() -> list[Mutant]:
    """
    The mutants that the command line asks for, each of which can be made.

    Raises:
        Stale: one of them cannot.
    """
    parser = argparse.ArgumentParser(description="Mistakes that tests must notice.")
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--sample", type=int, help="so many of them, at random")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    asked = parser.parse_args()
    mutants = read_catalogue(asked.words)
    for mutant in mutants:
        mutant.mutated(ROOT)
    if asked.sample is None or asked.sample >= len(mutants):
        return mutants
    print(f"{asked.sample} of {len(mutants)} mutants, --seed {asked.seed} has the same")
    return random.Random(asked.seed).sample(mutants, asked.sample)


def main() -> int:
    """
    Print the table; answers the exit code.
    """
    begun = time.monotonic()
    bad = 0
    with tempfile.TemporaryDirectory(prefix="pystore-mutants-") as folder:
        try:
            mutants = choose()
            base = make_base(Path(folder), mutants)
        except Stale as reason:
            # Nothing can be shown by tests that fail anyhow.
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
                    # It says nothing about the tests: as bad as a survivor.
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
