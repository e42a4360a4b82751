"""
Sets of real brokers, `pystore broker` processes under `pystore controller`, with the
default settings: how long no append gets the ack `all` when the master changes.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from types import TracebackType

from lib.broker_process import BrokerProcess, until
from lib.command_line import run
from lib.controller.controller_process import ControllerProcess
from lib.free_ports import free_port

from pystore.errors import PystoreError

__all__ = ["BrokerSet"]

_SETTINGS = """
brokerName = "b"
address = "127.0.0.1:{port}"
store = "{store}"
controllerAddr = "{controller}"
mappedFileSizeCommitLog = 67108864
minInSyncReplicas = {least}
"""
_REST_S = 0.0005


class BrokerSet:
    """
    A context manager.

    Args:
        folder: of the stores.
        count: of brokers.
        least: replicas that `all` needs.
    """

    def __init__(self, folder: Path, count: int, least: int) -> None:
        self._stack = ExitStack()
        try:
            words = ("--store", folder / "records")
            controller = self._stack.enter_context(ControllerProcess(*words))
            self._address = controller.address
            self._brokers = [
                self._stack.enter_context(
                    BrokerProcess.of(
                        folder,
                        f"b{number}",
                        _SETTINGS.format(
                            port=free_port(),
                            store=folder / f"b{number}",
                            controller=controller.address,
                            least=least,
                        ),
                    )
                )
                for number in range(count)
            ]
            self.acknowledged = 0
            self._await_whole()
        except BaseException:
            # Any error: no process stays.
            self._stack.close()
            raise

    def __enter__(self) -> BrokerSet:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def fail_over(self) -> float:
        """
        Kills the master, and returns the seconds until another broker acknowledged an
        append with `all`. Then the killed one starts again and is in sync.
        """
        master = self._master()
        self._append(master)
        others = [one for one in self._brokers if one is not master]
        begun_s = time.monotonic()
        master.child.kill()
        while not any(self._append(one) for one in others):
            time.sleep(_REST_S)
        taken_s = time.monotonic() - begun_s
        master.kill()
        master.restart()
        self._await_whole()
        return taken_s

    def switch(self) -> float:
        """
        Hands the mastership over while one thread appends with `all`; returns the
        longest time in s between two acks.
        """
        master = self._master()
        target = next(one for one in self._brokers if one is not master)
        acks: list[float] = []
        is_over = threading.Event()

        def write() -> None:
            while not is_over.is_set():
                if self._append(master) or self._append(target):
                    acks.append(time.monotonic())

        writer = threading.Thread(target=write)
        writer.start()
        try:
            until(lambda: len(acks) > 50)
            number = str(target.status()["brokerId"])
            done = run(
                "admin", "switchMaster", "-a", self._address, "-bn", "b", "-b", number
            )
            assert not done.exit_code, done.output
            count = len(acks)
            until(lambda: len(acks) > count + 50)
        finally:
            is_over.set()
            writer.join()
        self._await_whole()
        return max(after - before for before, after in pairwise(acks))

    def _append(self, broker: BrokerProcess) -> bool:
        try:
            with broker.client() as client:
                client.append("t", [b"x" * 100], ack="all", timeout_ms=10_000)
        except (PystoreError, OSError):
            # It is not the master, or was killed.
            return False
        self.acknowledged += 1
        return True

    def _master(self) -> BrokerProcess:
        found: BrokerProcess = until(
            lambda: next(
                (one for one in self._brokers if one.status()["role"] == "master"), None
            )
        )
        return found

    def _await_whole(self) -> None:
        count = len(self._brokers)
        until(lambda: len(self._master().status()["syncStateSet"]) == count)
        until(lambda: not self._master().status()["candidates"])
