"""
Slaves in a process of their own: one store and one follower for each.

Usage: slave_child.py FOLDER SEGMENT COUNT; then it executes commands (`child.py`).
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from child import serve
from machine import Growth
from master_child import EPOCH
from tls_files import client_tls

from pystore.ha.slave.backoff import BackOff
from pystore.ha.slave.config import SlaveConfig
from pystore.ha.slave.follower import Follower, FollowerEnvironment
from pystore.ha.slave.protocol_v3 import V3SlaveProtocol
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.ha.slave.transport import MasterStream, connect

__all__ = ["Slave"]


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Slave:
    """
    One replica, which follows on command.

    Args:
        root: of its store.
        segment: bytes of one of the master's files.
        broker_id: its id.

    Attributes:
        log: the replica.
        dialled: start of the newest link.
        reached: time at which the log had the end passed to `follow`.
    """

    def __init__(self, root: Path, segment: int, broker_id: int) -> None:
        self.log = ReplicaLog(root, segment_size=segment)
        self._tls = client_tls()
        own = self.log.incarnation
        self._config = SlaveConfig(
            "c",
            "b",
            broker_id,
            epoch=EPOCH,
            incarnation=own.counter,
            incarnation_bits=own.bits,
        )
        self.dialled = self.reached = 0.0
        self._end_offset = 0
        self._stopping = threading.Event()
        self._is_there = threading.Event()
        self._thread: threading.Thread | None = None

    def follow(self, address: tuple[str, int], end_offset: int) -> None:
        """
        Starts to follow, up to an end.
        """
        self._end_offset = end_offset
        self._stopping.clear()
        self._is_there.clear()
        environment = FollowerEnvironment(
            dial=lambda: self._dial(address),
            make=lambda: V3SlaveProtocol(self._config),
            now_ms=_now_ms,
            pause=lambda pause_ms: (self._stopping.wait(pause_ms / 1000), None)[1],
            is_stopping=self._stopping.is_set,
            tell=lambda kind, **told: print(kind.__name__, told, file=sys.stderr),
            turn=self._turn,
        )
        follower = Follower(self.log, environment, BackOff(lambda: 0.0, 10, 100))
        self._thread = threading.Thread(target=follower.run)
        self._thread.start()

    def _dial(self, address: tuple[str, int]) -> MasterStream:
        self.dialled = time.monotonic()
        return connect(*address, self._stopping.is_set, _now_ms, tls=self._tls)

    def _turn(self) -> None:
        if self._is_there.is_set():
            return
        if self.log.log().received_offset >= self._end_offset:
            self.reached = time.monotonic()
            self._is_there.set()

    def wait(self) -> None:
        """
        Waits until the log has the end.
        """
        while not self._is_there.wait(1):
            assert self._thread is not None
            assert self._thread.is_alive()

    def leave(self) -> None:
        """
        Stops following; may be called again.
        """
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        self._thread = None


class Slaves:
    """
    The commands; times are in seconds of the machine's clock.
    """

    def __init__(self, folder: Path, segment: int, count: int) -> None:
        self._all = [
            Slave(folder / f"slave-{number}", segment, 2 + number)
            for number in range(count)
        ]

    def close(self) -> None:
        """
        Stops following, and closes all stores.
        """
        for slave in self._all:
            slave.leave()
            slave.log.close()

    def catch_up(self, address: tuple[str, int], end_offset: int) -> float:
        """
        Follows until every log has the end, and returns the seconds. The links stay
        open.
        """
        for slave in self._all:
            slave.follow(address, end_offset)
        for slave in self._all:
            slave.wait()
        begun = min(slave.dialled for slave in self._all)
        return max(slave.reached for slave in self._all) - begun

    def grown(self, address: tuple[str, int], end_offset: int) -> int:
        """
        As `catch_up`; returns the growth of anonymous memory.
        """
        seen = Growth()
        self.catch_up(address, end_offset)
        seen.measure()
        return seen.bytes

    def dialled(self) -> float:
        """
        The start of the newest link.
        """
        return max(slave.dialled for slave in self._all)

    def leave(self) -> None:
        """
        All slaves stop following.
        """
        for slave in self._all:
            slave.leave()

    def end_offset(self) -> int:
        """
        The lowest end of all logs.
        """
        return min(slave.log.log().end_offset for slave in self._all)


def main() -> None:
    """
    Opens the stores, and executes commands.
    """
    folder, segment, count = sys.argv[1:]
    slaves = Slaves(Path(folder), int(segment), int(count))
    try:
        serve(
            {
                "catch_up": slaves.catch_up,
                "grown": slaves.grown,
                "dialled": slaves.dialled,
                "leave": slaves.leave,
                "end_offset": slaves.end_offset,
                "processor": time.process_time,
            }
        )
    finally:
        slaves.close()


if __name__ == "__main__":
    main()
