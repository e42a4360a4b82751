"""
Live RocketMQ processes: a name server, a controller and one broker that is master.

``rocketmq/rig`` starts and stops them, by the process ids that it wrote down, and
says when each is ready.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from interop.jvm import RIG

READY_S = 180
SEGMENT = 1 << 20


class BrokerSet:
    """
    A broker set of one, on free ports of this machine.

    Args:
        folder: where the processes work; the stores are in it.

    Attributes:
        store: the broker's.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        first = free_ports()
        self._namesrv, self._controller, self._broker = first, first + 2, first + 12
        self.store = folder / "broker" / "store"

    @property
    def ha_address(self) -> str:
        """
        Where the broker's slaves connect.
        """
        return f"127.0.0.1:{self._broker + 1}"

    def start(self) -> None:
        """
        Starts all three; the broker is master when it returns.
        """
        self._start("namesrv", self._namesrv)
        self._start("controller", self._controller)
        self._start(
            "broker",
            self._broker,
            *("--namesrv", f"127.0.0.1:{self._namesrv}"),
            *("--controllers", f"127.0.0.1:{self._controller}"),
            *("--segment", str(SEGMENT)),
        )

    def kill_master(self) -> None:
        """
        Ends the broker by SIGKILL.
        """
        self._rig("stop", "--kill", str(self._folder / "broker"))

    def restart_master(self) -> None:
        """
        Starts the broker on its store again; it is master of a new epoch then.
        """
        self._rig("restart", "--timeout", str(READY_S), str(self._folder / "broker"))

    def produce(self, count: int, first: int = 0) -> subprocess.Popen[bytes]:
        """
        Begins to send so many messages.
        """
        words = [f"count={count}", f"from={first}", "size=1024", "retry=1", "quiet"]
        command = self._command("produce", f"namesrv=127.0.0.1:{self._namesrv}", *words)
        return subprocess.Popen(command, env=self._environment())

    def stop(self) -> None:
        """
        Ends all of them.
        """
        self._rig("stop", "--all", "--kill")

    def _start(self, kind: str, port: int, *arguments: str) -> None:
        place = ("--dir", str(self._folder / kind), "--port", str(port))
        self._rig("start", kind, *place, "--timeout", str(READY_S), *arguments)

    def _rig(self, *arguments: str) -> None:
        subprocess.run(
            self._command(*arguments),
            check=True,
            env=self._environment(),
            timeout=READY_S + 60,
        )

    def _command(self, *arguments: str) -> list[str]:
        return [str(RIG / "rig"), *arguments]

    def _environment(self) -> dict[str, str]:
        # What is started here is stopped here, and nothing else.
        return os.environ | {"RIG_REGISTRY": str(self._folder / "registry")}


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


@contextmanager
def running(folder: Path) -> Iterator[BrokerSet]:
    """
    A broker set that is up, and ends with the block.
    """
    brokers = BrokerSet(folder)
    with ExitStack() as stack:
        stack.callback(brokers.stop)
        brokers.start()
        yield brokers
