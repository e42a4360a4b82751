"""
One broker: it gets an id, registers, sends a heartbeat a second, and hears who is
master, as RocketMQ's brokers do; it has no log.

Usage: broker_child.py HOST:PORT NAME ID, of its controller, its set and of itself; an
ID of 0: it applies for one. It prints a JSON object for each thing that happened, and
as master takes lines with the ids of the set that it is to ask for, until its input
ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from pystore.controller.client.client import ControllerClient, role_handler
from pystore.controller.model.commands import AlterSet
from pystore.controller.model.replies import Done, NextBrokerId
from pystore.controller.protocol.calls import (
    AlterSyncStateSet,
    ApplyBrokerId,
    ElectMaster,
    GetNextBrokerId,
    HeartbeatAnswer,
    MasterInfo,
    RegisterBroker,
    SendHeartbeat,
)
from pystore.remoting.codes import RequestCode
from pystore.remoting.connection import Handler
from pystore.remoting.server import RemotingServer
from pystore.replicaset import AgreedSet, Member

__all__ = ["Broker"]

_CLUSTER = "cluster"
_BEAT_S = 1.0
_PAUSE_S = 0.02


class Broker:
    """
    The broker. For one event loop.

    Args:
        controller: ``HOST:PORT``.
        name: of its set.
        broker_id: of itself; 0: it has none yet.
    """

    def __init__(self, controller: str, name: str, broker_id: int) -> None:
        self._controller = controller
        self._name = name
        self._id = broker_id
        self._address = ""
        self._lead = MasterInfo()
        self._client = ControllerClient([controller], self._hear)

    async def run(self) -> None:
        """
        Until its input ends.
        """
        handlers: dict[int, Handler] = {
            RequestCode.NOTIFY_BROKER_ROLE_CHANGED: role_handler(self._hear)
        }
        async with RemotingServer(handlers) as server, self._client:
            host, port = await server.start()
            self._address = f"{host}:{port}"
            await self._start()
            beating = asyncio.create_task(self._beat())
            while line := await asyncio.to_thread(sys.stdin.readline):
                await self._alter(frozenset(json.loads(line)))
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)

    async def _start(self) -> None:
        client = self._client
        if not self._id:
            told = await client.get_next_broker_id(
                GetNextBrokerId(_CLUSTER, self._name)
            )
            assert isinstance(told, NextBrokerId), told
            self._id = told.broker_id
            applied = await client.apply_broker_id(
                ApplyBrokerId(_CLUSTER, self._name, self._id, f"{self._address};1")
            )
            assert applied == Done(), applied
        found = await client.register_broker(
            RegisterBroker(_CLUSTER, self._name, self._id, self._address)
        )
        assert isinstance(found, MasterInfo), found
        await self._beat_once()
        while found.master is None:
            asked = ElectMaster(_CLUSTER, self._name, self._id)
            elected = await client.elect_master(asked)
            if isinstance(elected, MasterInfo):
                found = elected
            else:
                # The other one's election is on its way.
                await asyncio.sleep(_PAUSE_S)
        self._hear(found)
        _print({"started": self._id})

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_BEAT_S)
            await self._beat_once()

    async def _beat_once(self) -> None:
        beat = SendHeartbeat(
            _CLUSTER, self._name, self._id, self._address, self._lead.master_epoch, 0
        )
        answer = await self._client.heartbeat(self._controller, beat)
        assert isinstance(answer, HeartbeatAnswer), answer

    async def _alter(self, ids: frozenset[int]) -> None:
        """
        Asks for another set; what the controller refuses ends this process.
        """
        lead = self._lead
        change = AlterSet(
            Member(self._id),
            lead.master_epoch,
            lead.agreed.set_epoch,
            frozenset(map(Member, ids)),
        )
        agreed = await self._client.alter_sync_state_set(
            AlterSyncStateSet(self._name, change)
        )
        assert isinstance(agreed, AgreedSet), agreed
        _print({"in sync": len(agreed.members)})

    def _hear(self, told: MasterInfo) -> None:
        """
        A master was named: of what is said again nobody speaks.
        """
        at_ns = time.monotonic_ns()
        if told.master is None or told.master_epoch <= self._lead.master_epoch:
            return
        self._lead = told
        _print(
            {
                "master": told.master.broker_id,
                "epoch": told.master_epoch,
                "at_ns": at_ns,
            }
        )


def _print(event: dict[str, int]) -> None:
    print(json.dumps(event), flush=True)


def main() -> None:
    """
    Lives.
    """
    controller, name, broker_id = sys.argv[1:]
    asyncio.run(Broker(controller, name, int(broker_id)).run())


if __name__ == "__main__":
    main()
