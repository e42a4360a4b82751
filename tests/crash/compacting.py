"""
Compactions in processes that die before a step of theirs on the file system.

As a program: forks one for each line of standard input, which is the number of a
step, and prints its exit status. It has no threads, so that forking it is safe.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lib.spark.compaction import CHOICE, LocalJobs

from pystore.spark.compact.run import compact

__all__ = ["Compactor"]

_STEPS = (
    "open",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.symlink",
    "os.truncate",
)


class Compactor:
    """
    Runs compactions of a store that are killed. A context manager.

    Args:
        store: its root.
        into: directory of the result.
    """

    def __init__(self, store: Path, into: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, store, into],
            env=os.environ | {"PYTHONPATH": ":".join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def run_until(self, step: int) -> bool:
        """
        Runs a compaction that is killed before one of its steps.

        Returns:
            Whether it came to an end before.
        """
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{step}\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        assert status in (0, signal.SIGKILL), status
        return status == 0


def _fork(step: int, store: Path, into: Path) -> int:
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    code = 1
    try:
        sys.addaudithook(_killer(step, str(into)))
        compact(LocalJobs(), store, into, CHOICE)
        code = 0
    finally:
        os._exit(code)


def _killer(step: int, into: str) -> Callable[[str, tuple[Any, ...]], None]:
    steps = count()

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        is_ours = any(into in str(one) for one in arguments[:2])
        # A descriptor has no path; only outputs are given their size.
        is_step = event in _STEPS and (is_ours or event == "os.truncate")
        if is_step and next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    return look


if __name__ == "__main__":
    for line in sys.stdin:
        print(_fork(int(line), *map(Path, sys.argv[1:])), flush=True)
