"""
A set of three brokers, its controllers and their record store: processes, each on a
machine of its own.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from chaos.machines import SILENT, Network
from chaos.wall_clocks import WallClocks
from lib.broker_process import BrokerProcess, node_text
from lib.command_line import PYSTORE
from lib.controller.controller_process import ControllerProcess
from lib.recovery_process import RecoveryProcess
from lib.remoting.zookeeper_server import ZookeeperServer

from pystore.broker.control_client import ControlClient
from pystore.errors import PystoreError

__all__ = ["BROKERS", "CLONE", "LEASE_MS", "RECOVERIES", "SEGMENT", "ChaosSet"]

BROKERS = ("b1", "b2", "b3")
RECOVERIES = ("r1", "r2")
CLONE = "b4"
"""Where a copy of a broker's disk may run."""
LEASE_MS = 3_000
SEGMENT = 4 << 20

_DISK_MIB = 1_024
_RETAINED = 6 * SEGMENT
_STATUS_S = 1.0
_ORDER_S = 60
_SAID = 8_000
_BROKER_PORT, _CONTROLLER_PORT, _ZOOKEEPER_PORT = 10_911, 9_878, 2_181


class ChaosSet:
    """
    A context manager, which kills what still runs.

    Args:
        folder: new; takes configurations, logs and sockets.
        controllers: how many; more than one share a ZooKeeper.
        min_in_sync: copies that `all` needs.
        retains: whether old segments are deleted.
        recovers: whether AutoRecovery runs, on two machines.

    Attributes:
        network: of all machines.
        brokers: by name; a killed one is still listed.
        clocks: of brokers and controllers, by name.
        controllers: names of the machines.
        min_in_sync: copies that `all` needs.
    """

    def __init__(
        self,
        folder: Path,
        controllers: int,
        min_in_sync: int,
        *,
        retains: bool,
        recovers: bool = False,
    ) -> None:
        self._folder = folder.absolute()
        self.min_in_sync = min_in_sync
        self._retains = retains
        self.controllers = tuple(f"c{one + 1}" for one in range(controllers))
        names = [*BROKERS, CLONE, *self.controllers, *(RECOVERIES if recovers else ())]
        self._recovers = recovers
        self._recoveries: dict[str, RecoveryProcess] = {}
        self.network = Network(names + (["z1"] if controllers > 1 else []))
        self.clocks = WallClocks(self._folder)
        self.brokers: dict[str, BrokerProcess] = {}
        self._running: dict[str, ControllerProcess] = {}
        self._down: set[str] = set()
        self._zookeeper: ZookeeperServer | None = None

    def __enter__(self) -> ChaosSet:
        try:
            self._start()
        except BaseException:
            # Any error: no process stays.
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for broker in self.brokers.values():
            broker.kill()
        for recovery in self._recoveries.values():
            recovery.kill()
        for controller in self._running.values():
            if controller.child.poll() is None:
                controller.kill()
        if self._zookeeper is not None:
            self._zookeeper.kill()
        self.network.__exit__(kind, error, trace)

    def _start(self) -> None:
        if len(self.controllers) > 1:
            machine = self.network.machines["z1"]
            self._zookeeper = ZookeeperServer(
                self._folder / "zookeeper",
                _ZOOKEEPER_PORT,
                address=machine.address,
                before=machine.inside,
            )
        for name in self.controllers:
            self.start_controller(name)
        for name in (*BROKERS, CLONE):
            disk = self._disk(name)
            self.network.machines[name].mount(disk, _DISK_MIB)
            self.resolve(name)
            resolver = self._folder / "resolv.conf"
            resolver.write_text(f"nameserver {SILENT}\n")
            self.network.machines[name].names(self._hosts(name), resolver)
        for name in BROKERS:
            self.start_broker(name)
        for name in RECOVERIES if self._recovers else ():
            self.start_recovery(name)

    def start_broker(self, name: str) -> None:
        """
        Starts a broker for the first time, or a clone.
        """
        machine = self.network.machines[name]
        more = {"commitLogBytesMax": _RETAINED} if self._retains else {}
        text = node_text(
            self._disk(name) / "store",
            ";".join(f"{one}:{_CONTROLLER_PORT}" for one in self.controllers),
            address=f"{machine.address}:{_BROKER_PORT}",
            minInSyncReplicas=self.min_in_sync,
            syncFromLastFile="true",
            mappedFileSizeCommitLog=SEGMENT,
            controllerHeartBeatTimeoutMills=LEASE_MS,
            haMaxTimeSlaveNotCatchup=3_000,
            **more,
        )
        text += f'[host]\nsocket = "{self._folder / name}.sock"\n'
        before = (*machine.inside, *self.clocks.before(name))
        self.brokers[name] = BrokerProcess.of(self._folder, name, text, before)

    def resolve(self, name: str, *, is_silent: bool = False) -> None:
        """
        A broker's machine finds the controllers by their names, or waits for a server
        of names that is silent.
        """
        lines = [
            f"{self.network.machines[one].address} {one}\n" for one in self.controllers
        ]
        # In place: the machine has it mounted.
        self._hosts(name).write_text("" if is_silent else "".join(lines))

    def _hosts(self, name: str) -> Path:
        return self._folder / f"{name}.hosts"

    def _disk(self, name: str) -> Path:
        return self._folder / f"{name}-disk"

    def address(self, controller: str) -> str:
        """
        Returns ``HOST:PORT`` of a controller.
        """
        return f"{self.network.machines[controller].address}:{_CONTROLLER_PORT}"

    def store(self, name: str) -> Path:
        """
        Returns where this process sees the store of a broker.
        """
        return self.network.machines[name].seen(self._disk(name) / "store")

    # -- processes -------------------------------------------------------------

    @property
    def records(self) -> tuple[str, str]:
        """
        The option that names the record store to `pystore recovery`.
        """
        if self._zookeeper is not None:
            return "--records", self._zookeeper.hosts
        return "--records", str(self._folder / self.controllers[0])

    def start_recovery(self, name: str) -> None:
        """
        Starts a candidate for the Auditor with a worker, in place of one that runs.
        """
        if name in self._recoveries:
            self._recoveries[name].kill()
        self._recoveries[name] = RecoveryProcess(
            ";".join(self.address(one) for one in self.controllers),
            *self.records,
            said=self._folder / f"{name}.log",
            before=self.network.machines[name].inside,
        )

    def kill_recovery(self, name: str) -> None:
        """
        Kills it; `start_recovery` starts it again.
        """
        self._recoveries[name].kill()

    def ask_recovery(self, *words: str) -> str:
        """
        An operator asks AutoRecovery; returns what is printed.
        """
        inside = self.network.machines[RECOVERIES[0]].inside
        done = subprocess.run(
            [*inside, *PYSTORE, "recovery", *words, *self.records],
            check=False,
            capture_output=True,
            text=True,
            timeout=_ORDER_S,
        )
        assert done.returncode in (0, 1), f"{words}: {done.stderr}"
        return done.stdout

    def await_repaired(self, patience_s: float) -> None:
        """
        Waits until no segment lacks a good copy.

        Raises:
            AssertionError: some do, in time.
        """
        end_s = time.monotonic() + patience_s
        while left := json.loads(self.ask_recovery("list", "--json"))["segments"]:
            assert time.monotonic() < end_s, f"in the queue: {left}"
            time.sleep(_STATUS_S)

    def start_controller(self, name: str) -> None:
        """
        Starts a controller that does not run.
        """
        self._down.discard(name)
        machine = self.network.machines[name]
        place: tuple[str | Path, ...] = ("--store", self._folder / name)
        if self._zookeeper is not None:
            place = ("--zookeeper", self._zookeeper.hosts)
        place += ("--insecure",)
        self._running[name] = ControllerProcess(
            *place,
            before=(*machine.inside, *self.clocks.before(name)),
            listen=self.address(name),
        )

    def kill_controller(self, name: str) -> None:
        """
        Kills a controller, which stays down until `start_controller`.
        """
        self._running[name].kill()
        self._down.add(name)

    def restart_ended(self) -> None:
        """
        Starts controllers that ended by themselves, as a service manager does: one
        whose session did not end in time lets another one lead.
        """
        for name, controller in list(self._running.items()):
            if controller.child.poll() is not None and name not in self._down:
                controller.wait()
                self.start_controller(name)

    def controller(self, name: str) -> ControllerProcess:
        """
        Returns the newest process of a controller.
        """
        return self._running[name]

    @property
    def zookeeper(self) -> ZookeeperServer:
        """
        The record store of several controllers.
        """
        assert self._zookeeper is not None
        return self._zookeeper

    def said(self) -> dict[str, list[str]]:
        """
        Returns the lines on stderr of each newest controller.
        """
        return {name: list(one.said) for name, one in self._running.items()}

    # -- how it stands ---------------------------------------------------------

    def statuses(self) -> dict[str, dict[str, Any]]:
        """
        Returns the status of each broker that answers.
        """
        found = {}
        for name in BROKERS:
            broker = self.brokers[name]
            try:
                with ControlClient(broker.path, timeout_s=_STATUS_S) as client:
                    found[name] = client.status()[0]
            except PystoreError:
                # It is dead, or stands still.
                continue
        return found

    def _silent(self) -> str:
        """
        Returns the exit codes and the last lines of the brokers that do not answer; one
        that runs ends with the stacks of its threads.
        """
        answers, told = self.statuses(), ""
        for name in BROKERS:
            if name in answers:
                continue
            one = self.brokers[name]
            code = one.child.poll()
            if code is None:
                one.child.send_signal(signal.SIGCONT)
                one.child.send_signal(signal.SIGABRT)
                one.wait()
            told += f"\n{name}, exit code {code}: {one.said[-_SAID:]}"
        return told

    def master(self) -> str | None:
        """
        Returns the master of the highest epoch; ``None``: there is none.
        """
        masters = [
            (one["masterEpoch"], name)
            for name, one in self.statuses().items()
            if one["role"] == "master"
        ]
        return max(masters)[1] if masters else None

    def is_complete(self) -> bool:
        """
        Whether one broker is master, and all are in the set.
        """
        found = self.statuses()
        sets = [
            one["syncStateSet"] for one in found.values() if one["role"] == "master"
        ]
        return len(found) == len(BROKERS) and [len(BROKERS)] == [
            len(one) for one in sets
        ]

    def await_complete(self, patience_s: float) -> None:
        """
        Waits until the set is complete.

        Raises:
            AssertionError: it is not, in time; with the status of each broker.
        """
        end_s = time.monotonic() + patience_s
        while not self.is_complete():
            self.restart_ended()
            assert time.monotonic() < end_s, (
                f"the set is not complete: {self.statuses()}{self._silent()}"
            )
            time.sleep(0.1)

    def await_level(self, patience_s: float) -> None:
        """
        Waits until all logs end, and are confirmed, at the same offset.

        Raises:
            AssertionError: they do not, in time.
        """
        end_s = time.monotonic() + patience_s
        while True:
            now = self.statuses().values()
            ends = {one[key] for one in now for key in ("endOffset", "confirmOffset")}
            if len(now) == len(BROKERS) and len(ends) == 1:
                return
            assert time.monotonic() < end_s, f"the logs differ: {self.statuses()}"
            time.sleep(0.1)

    def accept_loss(self, name: str) -> None:
        """
        An operator opens the damaged store of a broker that does not run, and gives up
        what is damaged.
        """
        words = [*PYSTORE, "recover", "--accept-loss", str(self.store(name))]
        done = subprocess.run(
            words, check=False, capture_output=True, text=True, timeout=_ORDER_S
        )
        assert not done.returncode, done.stderr

    def admin(
        self, controller: str, command: str, broker_id: int, *, is_unclean: bool = False
    ) -> str:
        """
        An operator on the machine of a controller gives an order for a broker. Returns
        the error; empty: it is done.
        """
        option = "-c DefaultCluster -b" if command == "cleanBrokerMetadata" else "-b"
        words = ["-bn", "b", *(["--unclean", "--yes"] if is_unclean else [])]
        return self._order(controller, command, *words, *option.split(), str(broker_id))

    def transfer(self, controller: str) -> str:
        """
        An operator lets another controller lead. Returns the error; empty: it does.
        """
        return self._order(controller, "transferController")

    def _order(self, controller: str, command: str, *words: str) -> str:
        addresses = ";".join(self.address(one) for one in self.controllers)
        inside = self.network.machines[controller].inside
        done = subprocess.run(
            [*inside, *PYSTORE, "admin", command, "-a", addresses, *words],
            check=False,
            capture_output=True,
            text=True,
            timeout=_ORDER_S,
        )
        return done.stderr if done.returncode else ""
