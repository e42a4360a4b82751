"""
A name server and brokers of RocketMQ with controllers of pystore, all processes.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TypeVar

from interop.mqadmin import MqAdmin
from interop.rig import READY_S, Rig, free_ports
from lib.command_line import PYSTORE

from pystore.errors import PystoreError
from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.controller_bodies import SyncStateSet, encode_broker_names
from pystore.remoting.controller_headers import (
    GetMetadataResponse,
    GetReplicaInfoRequest,
    GetReplicaInfoResponse,
)
from pystore.remoting.fields import decode_fields, encode_fields
from pystore.remoting.replica_bodies import decode_replicas

__all__ = ["ControlledSet", "controlled", "until"]

PATIENCE_S = 180

_T = TypeVar("_T")
_STRANDED_S = 15
_POLL_S = 0.05
_FAST = (
    "checkSyncStateSetPeriod=500",
    "syncBrokerMetadataPeriod=500",
    "syncControllerMetadataPeriod=500",
)


class ControlledSet:
    """
    Brokers of the set ``broker-a`` in the cluster ``rig``.

    Args:
        folder: the working directory of the processes.
        stores: the options of each controller for its record store.
        count: the number of brokers, at most three.

    Attributes:
        controllers: the addresses of the controllers.
        brokers: the addresses of the brokers.
    """

    def __init__(self, folder: Path, stores: list[list[str]], count: int) -> None:
        self._folder, self._rig = folder, Rig(folder)
        folder.mkdir()
        first = free_ports()
        self.controllers = [f"127.0.0.1:{first + index}" for index in range(3)]
        self.controllers = self.controllers[: len(stores)]
        self._stores = dict(zip(self.controllers, stores, strict=True))
        self._namesrv = first + 4
        ports = [first + 8, first + 13, first + 18]
        self.brokers = [f"127.0.0.1:{port}" for port in ports[:count]]
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._logs: list[IO[bytes]] = []
        self._mqadmin = MqAdmin()
        self._java = ""
        self._restarting: list[subprocess.Popen[bytes]] = []

    def start(self, *, has_controller: bool = False) -> None:
        """
        Starts all processes together, and returns when all brokers are in the set.

        Args:
            has_controller: one of RocketMQ runs already.
        """
        for address in self.controllers:
            if not has_controller:
                self.start_controller(address)
        brokers = [self._start_broker(address) for address in self.brokers]
        self._rig.run("start", "namesrv", *self._place("namesrv", self._namesrv))
        for broker in brokers:
            assert 0 == broker.wait(timeout=READY_S + 60)
        self.await_set(len(self.brokers))

    def start_controller(self, address: str) -> None:
        """
        Starts or restarts a controller.
        """
        log = (self._folder / f"controller-{address[-5:]}.log").open("ab")
        self._logs.append(log)
        command = [*PYSTORE, "controller", "--listen", address, *self._stores[address]]
        self._processes[address] = subprocess.Popen(command, stdout=log, stderr=log)

    def start_javas_controller(self, kind: str) -> None:
        """
        Starts RocketMQ's controller in the place of the first one.
        """
        address = self.controllers[0]
        place = self._place("java-controller", int(address[-5:]))
        self._rig.run("start", "controller", "--type", kind, *place)
        self._java = address

    def kill_javas_controller(self) -> None:
        """
        Kills it with SIGKILL.
        """
        self._rig.run("stop", "--kill", self._folder / "java-controller")
        self._java = ""

    def said(self) -> str:
        """
        Returns what the controllers of pystore said on stderr.
        """
        files = sorted(self._folder.glob("controller-*.log"))
        return "".join(one.read_text() for one in files)

    def stores(self) -> list[str]:
        """
        Returns the store of each broker.
        """
        return [
            str(self._folder / f"broker-{one[-5:]}" / "store") for one in self.brokers
        ]

    def kill_controller(self, address: str) -> None:
        """
        Kills a controller with SIGKILL.
        """
        process = self._processes.pop(address)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def leader(self) -> str:
        """
        Returns the address of the leader, when all controllers agree on it.
        """

        def found() -> str | None:
            leaders = {
                decode_fields(
                    GetMetadataResponse, answer.ext_fields
                ).controller_leader_address
                for address in self._processes
                if (answer := ask(address, RequestCode.CONTROLLER_GET_METADATA_INFO))
            }
            (one, *more) = leaders or {None}
            return one if not more and one in self._processes else None

        return until(found)

    def info(self) -> tuple[GetReplicaInfoResponse, SyncStateSet] | None:
        """
        Returns the master and the SyncStateSet, if a controller knows them.
        """
        header = encode_fields(GetReplicaInfoRequest("broker-a"))
        for address in filter(None, [*self._processes, self._java]):
            answer = ask(address, RequestCode.CONTROLLER_GET_REPLICA_INFO, header)
            if answer is not None and answer.code == 0:
                fields = decode_fields(GetReplicaInfoResponse, answer.ext_fields)
                return fields, SyncStateSet.decode(answer.body)
        return None

    def await_set(self, count: int) -> frozenset[int]:
        """
        Returns the set when it has this number of members.

        A slave of RocketMQ that asked the name server before the new master registered
        follows the old master and stays there (RMQ-R164): it is restarted.
        """
        stranded_s = time.monotonic() + _STRANDED_S

        def found() -> frozenset[int] | None:
            nonlocal stranded_s
            info = self.info()
            ids = info[1].broker_ids if info is not None else frozenset()
            if len(ids) < count and time.monotonic() > stranded_s:
                stranded_s = time.monotonic() + PATIENCE_S
                for address in self.not_in_sync():
                    self.kill_broker(address)
                    self.restart_broker(address)
            return ids if len(ids) == count else None

        return until(found)

    def not_in_sync(self) -> list[str]:
        """
        Returns the addresses of brokers that are not in the set, by its leader.
        """
        names = encode_broker_names(["broker-a"])
        code = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
        answer = ask(self.leader(), code, body=names)
        replicas = decode_replicas(answer.body)["broker-a"] if answer else None
        return [one.broker_address for one in replicas.not_in_sync] if replicas else []

    def await_master(self, *, other_than: str = "") -> GetReplicaInfoResponse:
        """
        Returns the master when another broker has become master.
        """

        def found() -> GetReplicaInfoResponse | None:
            info = self.info()
            master = info[0].master_address if info is not None else None
            return info[0] if info and master and master != other_than else None

        return until(found)

    def kill_broker(self, address: str) -> None:
        """
        Kills a broker with SIGKILL.
        """
        self._rig.run("stop", "--kill", self._folder / f"broker-{address[-5:]}")

    def restart_broker(self, address: str) -> None:
        """
        Restarts a broker on its store, and returns when it has its role.
        """
        self._rig.run("restart", self._folder / f"broker-{address[-5:]}")

    def begin_restart(self, address: str) -> None:
        """
        Restarts a broker on its store, which has its role later.
        """
        folder = self._folder / f"broker-{address[-5:]}"
        self._restarting.append(self._rig.begin("restart", folder))

    def await_role(self, address: str, role: str) -> None:
        """
        Blocks until broker and controller agree on a role.
        """
        folder = self._folder / f"broker-{address[-5:]}"
        self._rig.run("wait", folder, "--role", role)

    def produce(self, count: int, first: int = 0) -> None:
        """
        Sends messages; all members of the set acknowledge each of them.
        """
        words = [f"count={count}", f"from={first}", "size=100", "retry=3", "quiet"]
        name_server = f"namesrv=127.0.0.1:{self._namesrv}"
        self._rig.run("produce", name_server, "poll=500", *words)

    def consume(self, count: int) -> None:
        """
        Reads this number of messages, each once.
        """
        words = [f"namesrv=127.0.0.1:{self._namesrv}", f"expect={count}", "quiet"]
        self._rig.run("consume", *words)

    def admin(self, command: str, *words: str) -> str:
        """
        Returns the output of an mqadmin command about the leader.
        """
        return self._mqadmin.run(command, "-a", self.leader(), *words)

    def stop(self) -> None:
        """
        Stops all processes.
        """
        for one in self._restarting:
            one.kill()
            one.wait()
        self._rig.stop()
        for address in list(self._processes):
            self.kill_controller(address)
        for log in self._logs:
            log.close()
        self._mqadmin.close()

    def _start_broker(self, address: str) -> subprocess.Popen[bytes]:
        place = self._place(f"broker-{address[-5:]}", int(address[-5:]))
        words = [*place, "--namesrv", f"127.0.0.1:{self._namesrv}", "--all-ack"]
        words += ["--controllers", ";".join(self.controllers), "--name", "broker-a"]
        for one in _FAST:
            words += ["--set", one]
        return self._rig.begin("start", "broker", *words)

    def _place(self, name: str, port: int) -> tuple[str, ...]:
        return ("--dir", str(self._folder / name), "--port", str(port))


def until(found: Callable[[], _T | None]) -> _T:
    """
    Returns the result of *found* when it is not ``None``.
    """
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        if (one := found()) is not None:
            return one
        time.sleep(_POLL_S)
    raise AssertionError("no result in time")


def ask(
    address: str, code: int, fields: dict[str, str] | None = None, body: bytes = b""
) -> RemotingCommand | None:
    """
    Returns the answer of a controller; ``None``: it does not answer.
    """

    async def answer() -> RemotingCommand:
        async with RemotingClient() as client:
            request = RemotingCommand(code, ext_fields=fields or {}, body=body)
            return await client.call(address, request)

    try:
        return asyncio.run(answer())
    except PystoreError:
        # It is dead or still starting.
        return None


@contextmanager
def controlled(
    folder: Path, stores: list[list[str]], count: int = 2
) -> Iterator[ControlledSet]:
    """
    Runs a complete broker set for the duration of the block.
    """
    brokers = ControlledSet(folder, stores, count)
    with ExitStack() as stack:
        stack.callback(brokers.stop)
        brokers.start()
        yield brokers
