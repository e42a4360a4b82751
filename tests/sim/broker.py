"""
A broker of a set.
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.disk import WELL
from sim.kernel import Kernel
from sim.place import Place
from sim.power_cut import lose_unsynced
from sim.programs import BrokerProgram

from pystore.broker.settings import host_of_toml

if TYPE_CHECKING:
    from sim.broker_set import BrokerSet

__all__ = ["LEASE_MS", "SEGMENT", "Answered", "Broker"]

LEASE_MS = 3_000
SEGMENT = 64 << 10

_PORT = 10_911
_QUICK: dict[str, str | int] = {
    "brokerHeartbeatInterval": 500,
    "controllerHeartBeatTimeoutMills": LEASE_MS,
    "checkSyncStateSetPeriod": 1_000,
}

Answered = Callable[[dict[str, Any]], object]


class Broker(Place):
    """
    A machine with a broker, whose store stays.

    Args:
        owner: the set.
        name: of the machine.
        number: last part of its address.

    Attributes:
        run: number of the process that was started last.
        store: its directory.
        synced: end of its log that was on disk when it told last.
        more: settings of its own.
        defect_of_peer: is called in its process, and makes it a faulty peer.
        disk: the state of its disk.
    """

    def __init__(self, owner: BrokerSet, name: str, number: int) -> None:
        super().__init__(owner, name, f"10.0.0.{number}")
        self.run = 0
        self.store = owner.folder / name
        self.synced = 0
        self.more: dict[str, str | int] = {}
        self.defect_of_peer: Callable[[], object] = bool
        self.disk = WELL
        self._numbers = itertools.count(1)
        self._asked: dict[int, Answered] = {}

    def start(self) -> None:
        """
        Starts a process.
        """
        self.run += 1
        self._asked.clear()
        super().start()
        self.set_disk(self.disk)

    def set_disk(self, state: str) -> None:
        """
        Its disk works from now on as `sim.disk.Disk` says.
        """
        self.disk = state
        if self.process is not None:
            self.process.deliver("disk", state)

    def cut_power(self, loss: float) -> None:
        """
        Kills its process, and pages that are not on disk are lost, each with this
        chance; `start` starts the machine again.
        """
        self.machine.is_up = False
        self.kill()
        lose_unsynced(self.store, self.synced, loss, self._owner.world.draw)

    def copy_store(self, copy: Path) -> None:
        """
        Copies its store, also while it runs: nothing changes it meanwhile.
        """
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.store, copy)

    def ask(self, request: dict[str, Any], told: Answered) -> None:
        """
        Sends a request to its control socket; *told* gets the answer, if there is one.
        """
        if self.process is not None and self.process.is_alive:
            number = next(self._numbers)
            self._asked[number] = told
            self.process.deliver("request", number, json.dumps(request).encode())

    def _program(self) -> Callable[[Kernel], BrokerProgram]:
        (settings,) = host_of_toml(self._text(), self.name).nodes
        return lambda kernel: BrokerProgram(kernel, settings, self.defect_of_peer)

    def _text(self) -> str:
        owner = self._owner
        settings: dict[str, str | int] = {
            "brokerName": "b",
            "address": f"{self.machine.host}:{_PORT}",
            "store": str(self.store),
            "controllerAddr": ";".join(one.address for one in owner.controllers),
            "mappedFileSizeCommitLog": SEGMENT,
            "minInSyncReplicas": owner.min_in_sync,
            **(_QUICK if owner.is_quick else {}),
            **self.more,
        }
        return "".join(
            f'{name} = "{value}"\n' if isinstance(value, str) else f"{name} = {value}\n"
            for name, value in settings.items()
        )

    def _took(self, kind: str, *more: Any) -> None:
        if kind == "synced":
            self.synced = more[0]
        elif kind == "reply":
            number, content = more
            told = self._asked.pop(number, None)
            if told is not None:
                told(json.loads(content))
