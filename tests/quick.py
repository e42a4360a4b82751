"""
``make quick``: runs the tests that are nearest to a change, within a minute.

A change is what differs from the merge base with main (on main: from the last commit)
and what git does not track. Nearest are the tests of the changed files, then those of
their packages, then those of the modules that import a changed one. Tests that do not
fit into the budget, by the times of earlier runs, are left to ``make test``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

from lib.imports import MODULES, ROOT, import_edges, module_of

BUDGET_SECONDS = 65.0  # of tests; two workers share them, and need some time to start
TIMES, RESULTS = ROOT / "build/quick.json", ROOT / "build/quick.xml"
SOURCE = ("pystore/", "ha/", "controller/")
HOUSE = ("tests/unit/test_floors.py", "tests/unit/test_layout.py")


def changed_files() -> list[str]:
    """
    Returns the changed and untracked files of this checkout.
    """
    (base,) = _git("merge-base", "HEAD", "main") or ["HEAD"]
    untracked = _git("ls-files", "--others", "--exclude-standard")
    return sorted({*_git("diff", "--name-only", base), *untracked})


def _git(*arguments: str) -> list[str]:
    command = ["git", "-C", str(ROOT), *arguments]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.splitlines()


def choose(changed: list[str]) -> dict[str, str]:
    """
    Returns the test files for a change and why each was chosen, the nearest first.
    """
    sources = [name for name in changed if name.startswith(SOURCE)]
    modules = {module_of(ROOT / name) for name in sources if name.endswith(".py")}
    found = {test: name for name in changed for test in _tests_of(name)}
    found |= dict.fromkeys(HOUSE, "the rules for all files")
    for folder in sorted({str(Path(_mirror(name)).parent) for name in sources}):
        for test in _glob(f"{folder}/test_*.py"):
            found.setdefault(test, f"the package of {folder}")
    for importer, imported in sorted(set(import_edges())):
        if imported in modules:
            test = _mirror(MODULES[importer].relative_to(ROOT).as_posix())
            found.setdefault(test, f"importers of {imported}")
    return {test: why for test, why in found.items() if (ROOT / test).exists()}


def _tests_of(name: str) -> Iterable[str]:
    path = Path(name)
    if name.startswith(SOURCE):
        return [_mirror(name)]
    if name.startswith("csrc/"):
        return _glob("tests/unit/bindings/test_*.py", "tests/unit/core/test_*.py")
    if path.suffix == ".md":
        return _glob("tests/docs/test_*.py")
    if name.startswith("tests/lib/"):
        start = f"from {name[6:-3].replace('/', '.')} "
        tests = _glob("tests/unit/**/test_*.py")
        return (test for test in tests if start in (ROOT / test).read_text())
    is_fast = name.startswith(("tests/unit/", "tests/docs/", "tests/property/"))
    return [name] if is_fast and path.name.startswith("test_") else []


def _mirror(source: str) -> str:
    folder, _, stem = source.removeprefix("pystore/").rpartition("/")
    test = f"test_{stem.removesuffix('.py').strip('_')}.py"
    return "/".join(filter(None, ("tests/unit", folder, test)))


def _glob(*patterns: str) -> Iterator[str]:
    paths = (path for pattern in patterns for path in sorted(ROOT.glob(pattern)))
    return (path.relative_to(ROOT).as_posix() for path in paths)


def within(tests: Iterable[str], times: dict[str, float], budget: float) -> list[str]:
    """
    Returns the first of the tests, as many as fit into *budget* seconds.
    """
    taken = []
    for test in tests:
        if (seconds := times.get(test, 1.0)) <= budget:
            budget -= seconds
            taken.append(test)
    return taken


def measured(report: str) -> dict[str, float]:
    """
    Returns the seconds of each test file in a JUnit report of pytest.
    """
    times: dict[str, float] = {}
    for case in ET.fromstring(report).iter("testcase"):
        name = case.attrib["classname"].replace(".", "/") + ".py"
        times[name] = times.get(name, 0.0) + float(case.attrib["time"])
    return times


def main() -> int:
    """
    Runs the tests and returns pytest's exit code.
    """
    times = json.loads(TIMES.read_text()) if TIMES.exists() else {}
    chosen = choose(changed_files())
    taken = within(chosen, times, BUDGET_SECONDS)
    for why in dict.fromkeys(chosen.values()):
        tests = [test for test in taken if chosen[test] == why]
        left = list(chosen.values()).count(why) - len(tests)
        note = f" (left to make test: {left} files)" if left else ""
        print(f"{why}: {' '.join(tests).replace('tests/', '')}{note}")
    sys.stdout.flush()
    options = ["-n", "2", "-m", "not slow", "-q", f"--junit-xml={RESULTS}"]
    command = [sys.executable, "-m", "pytest", *options, *taken]
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    if RESULTS.exists():
        times |= measured(RESULTS.read_text())
        TIMES.write_text(json.dumps(times, indent=0, sort_keys=True))
    return code


if __name__ == "__main__":
    sys.exit(main())
