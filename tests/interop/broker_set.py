"""
Live RocketMQ processes: a name server, a controller and one broker that is master.
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
    A broker set of one, on free ports of this machine.

    Args:
        folder: where the processes work; the stores are in it.

    Attributes:
        store: the broker's.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._rig = folder, Rig(folder)
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
        Ends the broker by SIGKILL.
        """
        self._rig.run("stop", "--kill", self._folder / "broker")

    def restart_master(self) -> None:
        """
        Starts the broker on its store again; it is master of a new epoch then.
        """
        self._rig.run("restart", self._folder / "broker")

    def produce(self, count: int, first: int = 0) -> subprocess.Popen[bytes]:
        """
        Begins to send so many messages.
        """
        words = [f"count={count}", f"from={first}", "size=1024", "retry=1", "quiet"]
        return self._rig.begin("produce", f"namesrv=127.0.0.1:{self._namesrv}", *words)

    def stop(self) -> None:
        """
        Ends all of them.
        """
        self._rig.stop()


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
