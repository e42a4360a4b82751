"""
A broker of pystore in a separate process that executes commands and can be killed.

It negotiates its id, registers, asks for an election, sends heartbeats, registers with
a name server as master, and serves slaves. Each line of standard input is a command in
JSON, and so is its answer. `PystoreBroker` is the other end.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lib.remoting.name_server_peers import registration, topics
from lib.store.stores import message

from pystore.broker.controller_gateway import ThreadedGateway
from pystore.controller.client.client import ControllerClient, role_handler
from pystore.controller.identity.identity import ConfiguredIdentity, check_code
from pystore.controller.identity.negotiation import Negotiation
from pystore.controller.identity.registration import BrokerRegistration
from pystore.controller.identity.store import IdentityStore
from pystore.controller.model.commands import Recovery
from pystore.controller.model.log_end import LogEnd
from pystore.controller.protocol.calls import (
    ElectMaster,
    GetReplicaInfo,
    HeartbeatAnswer,
    MasterInfo,
    RegisterBroker,
    SendHeartbeat,
)
from pystore.controller.protocol.extensions import HeartbeatExtension
from pystore.errors import FencedError
from pystore.ha.config import ReplicaConfig
from pystore.ha.decision import Decision
from pystore.ha.insync.ack import Ack, AckOutcome
from pystore.ha.insync.config import SetRules
from pystore.ha.master.lease import NO_LEASE, lease_from
from pystore.ha.replica import Replica
from pystore.ha.role import Role
from pystore.metastore.schema import INCARNATION
from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection, Handler
from pystore.remoting.reply import Reply
from pystore.remoting.server import RemotingServer
from pystore.rocketmq.identity_file import BrokerIdentity
from pystore.store.commit_log import CommitLog

BEAT_S = 0.1
ACK_MS = 60_000
WINDOW = 20
RULES = SetRules(serves_synced=False, first_check_ms=500, check_ms=500)

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Setting:
    """
    The configuration of a broker; addresses are ``HOST:PORT``.

    Attributes:
        cluster: the name of the cluster.
        broker: the name of the set.
        address: the address of the broker; slaves connect to the next port.
        controller: the address of the controller.
        name_server: the address of the name server.
        store: the directory of the store.
        segment_size: in bytes.
    """

    cluster: str
    broker: str
    address: str
    controller: str
    name_server: str
    store: str
    segment_size: int

    @property
    def port(self) -> int:
        """
        The port of its address.
        """
        return int(self.address.rpartition(":")[2])


class PystoreBroker:
    """
    The process; the constructor returns when the broker is master.
    """

    def __init__(self, setting: Setting) -> None:
        words = [sys.executable, __file__, json.dumps(asdict(setting))]
        tests = str(Path(__file__).parents[1])
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": tests},
            text=True,
        )
        self.standing()

    def append(self, count: int, first: int, ack: Ack = Ack.ALL) -> Json:
        """
        Appends messages and returns the values of `standing`, with the results of the
        appends as ``outcomes``.
        """
        return self._ask({"count": count, "first": first, "ack": ack.name})

    def standing(self) -> Json:
        """
        Returns its epochs, the end and the confirm offset of its log, and the set.
        """
        return self._ask({})

    def kill_while_appending(self, count: int, first: int) -> int:
        """
        Kills the process with SIGKILL while it appends a few messages at a time.

        Returns:
            The number of acknowledged messages.
        """
        self._send({"count": count, "first": first, "window": WINDOW})
        assert self._process.stdout is not None
        for _ in range(3):
            assert self._process.stdout.readline()
        self._process.kill()
        answers = 3 + len(self._process.communicate()[0].splitlines())
        assert answers * WINDOW < count
        return answers * WINDOW

    def kill(self) -> None:
        """
        Kills the process with SIGKILL. May be called again.
        """
        self._process.kill()
        self._process.communicate()

    def _ask(self, command: Json) -> Json:
        assert self._process.stdout is not None
        self._send(command)
        answer: Json = json.loads(self._process.stdout.readline())
        return answer

    def _send(self, command: Json) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()


class _Broker:
    """
    The broker inside the process.
    """

    def __init__(self, setting: Setting, client: ControllerClient) -> None:
        self._setting = setting
        self._client = client
        self._remoting = RemotingClient(say=_report)

    async def identify(self) -> BrokerIdentity:
        now = self._setting
        named = ConfiguredIdentity(now.cluster, now.broker, now.address)
        with CommitLog(now.store, segment_size=now.segment_size) as log:
            found = Recovery(log.writer.metastore.read(INCARNATION))
            registration = BrokerRegistration(
                Negotiation(named, lambda: _code(now.address), found),
                IdentityStore(log.writer),
                self._client,
                lambda failures: asyncio.sleep(0.1 * failures),
                _report,
            )
            identity = (await registration.run()).identity
        assert identity is not None
        return identity

    async def run(self, identity: BrokerIdentity) -> None:
        now, loop = self._setting, asyncio.get_running_loop()
        self.gateway = ThreadedGateway(self._client, loop, identity, self.apply_master)
        config = ReplicaConfig(
            now.cluster,
            now.broker,
            identity.broker_id,
            port=now.port + 1,
            rules=RULES,
            say=_report,
        )
        self.replica = Replica(
            now.store, config, self.gateway, segment_size=now.segment_size
        )
        handlers: dict[int, Handler] = {
            RequestCode.NOTIFY_BROKER_ROLE_CHANGED: role_handler(self.apply_master),
            RequestCode.GET_BROKER_EPOCH_CACHE: self._epochs,
        }
        await RemotingServer(handlers, say=_report).start(port=now.port)
        recovery = Recovery(
            self.replica.log.incarnation,
            position=self._position(),
            is_clean=self.replica.log.recovery.is_clean,
        )
        registered = await self._client.register_broker(
            RegisterBroker(
                now.cluster, now.broker, identity.broker_id, now.address, recovery
            )
        )
        assert isinstance(registered, MasterInfo), registered
        await self._beat(identity.broker_id)
        elect = ElectMaster(now.cluster, now.broker, identity.broker_id)
        elected = await self._client.elect_master(elect)
        assert isinstance(elected, MasterInfo), elected
        self.apply_master(elected)
        beating = asyncio.create_task(self._send_heartbeats(identity.broker_id))
        is_master = lambda standing: standing.role is Role.MASTER  # noqa: E731
        await asyncio.to_thread(self.replica.wait_for, is_master)
        while line := await asyncio.to_thread(sys.stdin.readline):
            await asyncio.to_thread(self._execute, json.loads(line))
        beating.cancel()

    def apply_master(self, ship: MasterInfo) -> None:
        # This broker never follows, so the HA address of other brokers does not matter.
        self.replica.decided(Decision(ship.master_epoch, ship.master, "", ship.agreed))

    async def _send_heartbeats(self, broker_id: int) -> None:
        while True:
            await self._beat(broker_id)
            await self.gateway.learn_brokers()
            found = await self._client.get_replica_info(
                GetReplicaInfo(self._setting.broker)
            )
            if isinstance(found, MasterInfo):
                self.apply_master(found)
            await self._register_route()
            await asyncio.sleep(BEAT_S)

    async def _beat(self, broker_id: int) -> None:
        now, at = self._setting, self._position()
        confirm = self.replica.log.log().confirm_offset
        beat = SendHeartbeat(
            *(now.cluster, now.broker, broker_id, now.address),
            *(at.epoch, at.end, confirm),
            extension=HeartbeatExtension(
                self.replica.log.incarnation, resigned_epoch=self.gateway.resigned_epoch
            ),
        )
        boottime_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        wall_ms = time.time_ns() // 1_000_000
        for address in self._client.known:
            answer = await self._client.heartbeat(address, beat)
            if isinstance(answer, HeartbeatAnswer) and answer.lease is not None:
                grant = answer.lease
                length_ms = grant.length_ms
                lease = lease_from(boottime_ns, wall_ms, length_ms)
                self.replica.leased(grant.epoch, lease if length_ms else NO_LEASE)

    async def _register_route(self) -> None:
        now, standing = self._setting, self.replica.standing()
        if standing.role is not Role.MASTER:
            return
        request = registration(
            "",
            body=topics({}, epoch=standing.epoch),
            brokerName=now.broker,
            brokerAddr=now.address,
            clusterName=now.cluster,
            haServerAddr=standing.address,
        )
        await self._remoting.call(now.name_server, request)

    def _position(self) -> LogEnd:
        log = self.replica.log.log()
        pairs = log.epochs.pairs()
        return LogEnd(pairs[-1][0] if pairs else 0, log.end_offset)

    async def _epochs(self, _: RemotingCommand, __: Connection) -> Reply:
        now, standing = self._setting, self._standing()
        starts = [start for _, start in standing["epochs"]]
        entries = [
            {"epoch": epoch, "startOffset": start, "endOffset": end}
            for (epoch, start), end in zip(
                standing["epochs"], [*starts[1:], standing["end"]], strict=True
            )
        ]
        cache = {
            "brokerId": 0,
            "brokerName": now.broker,
            "clusterName": now.cluster,
            "epochList": entries,
            "maxOffset": standing["end"],
        }
        return Reply(body=json.dumps(cache).encode())

    def _execute(self, command: Json) -> None:
        first, count = command.get("first", 0), command.get("count", 0)
        window = command.get("window", count)
        while True:
            numbers = range(first, first + min(window, count))
            outcomes = self._appended(numbers, Ack[command.get("ack", "ALL")])
            answer = self._standing() | {"outcomes": sorted(outcomes)}
            print(json.dumps(answer), flush=True)
            first, count = first + window, count - window
            if count <= 0:
                return

    def _appended(self, numbers: range, ack: Ack) -> set[str]:
        try:
            futures = [self.replica.submit(message(one), ack) for one in numbers]
        except FencedError:
            # Refused before a byte was written.
            return {AckOutcome.FENCED.name}
        return {one.outcome.name for one in self.replica.wait_all(futures, ACK_MS)}

    def _standing(self) -> Json:
        log, standing = self.replica.log.log(), self.replica.standing()
        return {
            "role": standing.role.value,
            "epochs": log.epochs.pairs(),
            "end": log.end_offset,
            "confirm": log.confirm_offset,
            "set": sorted(one.broker_id for one in standing.agreed.members),
            "problem": standing.problem,
        }


def _code(address: str) -> str:
    return check_code(address, time.time_ns() // 1_000_000, os.urandom(8))


def _report(line: object) -> None:
    print(line, file=sys.stderr, flush=True)


async def _main(setting: Setting) -> None:
    later: list[Callable[[MasterInfo], object]] = []
    async with ControllerClient(
        [setting.controller], lambda ship: [apply(ship) for apply in later], say=_report
    ) as client:
        broker = _Broker(setting, client)
        identity = await broker.identify()
        later.append(broker.apply_master)
        await broker.run(identity)


if __name__ == "__main__":
    asyncio.run(_main(Setting(**json.loads(sys.argv[1]))))
