"""
RocketMQ's processes on this machine.

``rocketmq/rig`` starts and stops them by their recorded process ids, and reports when
each is ready.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
from pathlib import Path
from typing import IO

from interop.jvm import DEFAULT_VERSION, RIG

__all__ = ["READY_S", "Rig", "free_ports"]

READY_S = 180
_WAITING = frozenset({"start", "restart", "wait"})


class Rig:
    """
    Stops exactly the processes that it started.

    Args:
        folder: the working directory of the processes, with their recorded ids.
        options: of Java, for all of them.
        version: of RocketMQ; it was fetched with its processes.
    """

    def __init__(
        self, folder: Path, options: str = "", version: str = DEFAULT_VERSION
    ) -> None:
        self._folder = folder
        registry = str(folder / "registry")
        given = {"RIG_REGISTRY": registry, "RIG_VERSION": version}
        self._environment = os.environ | given | {"JAVA_TOOL_OPTIONS": options}

    def start(self, kind: str, port: int, *words: str) -> None:
        """
        Starts the only process of a kind, and returns when it is ready.
        """
        place = ("--dir", self._folder / kind, "--port", str(port))
        self.run("start", kind, *place, *words)

    def run(self, *words: str | Path) -> None:
        """
        Runs a command to its end, which may be when a process is ready.
        """
        command = self.begin(*words)
        try:
            assert 0 == command.wait(READY_S + 60), words
        finally:
            # It may hang; a process that has ended is not touched.
            command.kill()

    def begin(
        self, *words: str | Path, output: IO[bytes] | None = None
    ) -> subprocess.Popen[bytes]:
        """
        Starts a command; what it prints goes to a file if there is one.
        """
        limit = ("--timeout", str(READY_S)) if words[0] in _WAITING else ()
        return subprocess.Popen(
            [RIG / "rig", *words, *limit],
            env=self._environment,
            stdout=output,
            stderr=output,
        )

    def stop(self) -> None:
        """
        Stops all processes at once.
        """
        self.run("stop", "--all", "--kill")


def free_ports() -> int:
    """
    Returns the first of several consecutive free ports: a broker needs three.

    Two processes of one test run use two ranges, so that they do not find the same
    ports.
    """
    draw = random.Random()
    lowest = 25_000 if os.environ.get("PYTEST_XDIST_WORKER") == "gw1" else 20_000
    while True:
        first = draw.randrange(lowest, lowest + 5_000, 20)
        if all(_is_free(port) for port in range(first, first + 20)):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
