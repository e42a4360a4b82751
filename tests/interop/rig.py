"""
RocketMQ's processes on this machine.

``rocketmq/rig`` starts and stops them, by the process ids that it wrote down, and says
when each is ready.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
from pathlib import Path

from interop.jvm import RIG

__all__ = ["READY_S", "Rig", "free_ports"]

READY_S = 180
_WAITING = frozenset({"start", "restart", "wait"})


class Rig:
    """
    What is started by one is stopped by it, and nothing else.

    Args:
        folder: where the processes work, and where it keeps what it wrote down.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environment = os.environ | {"RIG_REGISTRY": str(folder / "registry")}

    def start(self, kind: str, port: int, *words: str) -> None:
        """
        Starts the only one of its kind; it is ready when this returns.
        """
        place = ("--dir", self._folder / kind, "--port", str(port))
        self.run("start", kind, *place, *words)

    def run(self, *words: str | Path) -> None:
        """
        Runs a command to its end, which may be when somebody is ready.
        """
        command = self.begin(*words)
        try:
            assert 0 == command.wait(READY_S + 60), words
        finally:
            # It may hang; one that has ended is not touched.
            command.kill()

    def begin(self, *words: str | Path) -> subprocess.Popen[bytes]:
        """
        Begins to run a command.
        """
        limit = ("--timeout", str(READY_S)) if words[0] in _WAITING else ()
        return subprocess.Popen([RIG / "rig", *words, *limit], env=self._environment)

    def stop(self) -> None:
        """
        Ends all of them at once.
        """
        self.run("stop", "--all", "--kill")


def free_ports() -> int:
    """
    The first of a row of ports that nobody listens at: a broker takes three.

    Two processes of one test run draw from two ranges, or one could take what the
    other has found free.
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
