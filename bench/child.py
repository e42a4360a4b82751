"""
A child process that executes commands, line by line, and returns results.

A command is a JSON list with its name first; the result is a JSON value. The process
ends with its input, so it never outlives a bench that failed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

__all__ = ["Child", "serve"]


class Child:
    """
    The process, seen from its parent. A context manager.

    Args:
        program: a file of this folder, which calls `serve`.
        *arguments: of the program.
        build: a checkout with its core built in place, whose program and modules run;
            empty: this one.
    """

    def __init__(self, program: str, *arguments: object, build: str = "") -> None:
        path = Path(__file__).with_name(program)
        places = list(filter(None, sys.path))
        if build:
            path = Path(build, "bench", program)
            places.insert(0, build)
        self._process = subprocess.Popen(
            [sys.executable, str(path), *map(str, arguments)],
            env=os.environ | {"PYTHONPATH": ":".join(places)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        code = self._process.wait(60)
        self._process.stdout.close()
        assert error is not None or not code, f"the process ended with {code}"

    def send(self, name: str, *values: object) -> None:
        """
        Sends a command; `answer` waits for its result.
        """
        assert self._process.stdin
        self._process.stdin.write(json.dumps([name, *values]) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """
        Returns the result of the oldest command without one.
        """
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "the process ended"
        return json.loads(line)

    def call(self, name: str, *values: object) -> Any:
        """
        Sends a command and returns its result.
        """
        self.send(name, *values)
        return self.answer()


def serve(orders: Mapping[str, Callable[..., object]]) -> None:
    """
    Executes commands in this process until its input ends.
    """
    for line in sys.stdin:
        name, *values = json.loads(line)
        print(json.dumps(orders[name](*values)), flush=True)
