"""
Running RocketMQ processes: a name server, a controller and one broker, the master.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from interop.rig import Rig, free_ports

SEGMENT = 1 << 20


class BrokerSet:
    """
    A broker set with one broker, on free ports of this machine.

    Args:
        folder: the working directory of the processes, with the stores.

    Attributes:
        store: the store of the broker.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._rig = folder, Rig(folder)
        first = free_ports()
        self._namesrv, self._controller, self._broker = first, first + 2, first + 12
        self.store = folder / "broker" / "store"

    @property
    def ha_address(self) -> str:
        """
        The address to which slaves of the broker connect.
        """
        return f"127.0.0.1:{self._broker + 1}"

    def start(self) -> None:
        """
        Starts all three, and returns when the broker is master.
        """
        self._rig.start("namesrv", self._namesrv)
        self._rig.start("controller", self._controller)
        self._rig.start(
            "broker",
            self._broker,
            *("--namesrv", f"127.0.0.1:{self._namesrv}"),
            *("--controllers", f"127.0.0.1:{self._controller}"),
            *("--segment", str(SEGMENT)),
        )

    def kill_master(self) -> None:
        """
        Kills the broker with SIGKILL.
        """
        self._rig.run("stop", "--kill", self._folder / "broker")

    def restart_master(self) -> None:
        """
        Restarts the broker on its store; it becomes master with a new epoch.
        """
        self._rig.run("restart", self._folder / "broker")

    def produce(self, count: int, first: int = 0) -> subprocess.Popen[bytes]:
        """
        Starts to send this number of messages.
        """
        words = [f"count={count}", f"from={first}", "size=1024", "retry=1", "quiet"]
        return self._rig.begin("produce", f"namesrv=127.0.0.1:{self._namesrv}", *words)

    def stop(self) -> None:
        """
        Stops all processes.
        """
        self._rig.stop()


@contextmanager
def running(folder: Path) -> Iterator[BrokerSet]:
    """
    Runs a broker set for the duration of the block.
    """
    brokers = BrokerSet(folder)
    with ExitStack() as stack:
        stack.callback(brokers.stop)
        brokers.start()
        yield brokers
