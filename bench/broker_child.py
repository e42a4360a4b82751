"""
One broker without a log: it gets an id, registers, sends a heartbeat each second, and
receives the master of its set, as RocketMQ's brokers do.

Usage: broker_child.py HOST:PORT NAME ID: the address of the controller, the name of the
set, the broker id; 0: the broker gets a new id. It prints a JSON object for each event.
As master it reads lines with the ids of the wanted SyncStateSet, until its input ends.
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
        broker_id: its id; 0: it has none yet.
    """

    def __init__(self, controller: str, name: str, broker_id: int) -> None:
        self._controller = controller
        self._name = name
        self._id = broker_id
        self._address = ""
        self._lead = MasterInfo()
        self._client = ControllerClient([controller], self._note_master)

    async def run(self) -> None:
        """
        Runs until the input ends.
        """
        handlers: dict[int, Handler] = {
            RequestCode.NOTIFY_BROKER_ROLE_CHANGED: role_handler(self._note_master)
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
            answer = await client.get_next_broker_id(
                GetNextBrokerId(_CLUSTER, self._name)
            )
            assert isinstance(answer, NextBrokerId), answer
            self._id = answer.broker_id
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
            request = ElectMaster(_CLUSTER, self._name, self._id)
            elected = await client.elect_master(request)
            if isinstance(elected, MasterInfo):
                found = elected
            else:
                # The other broker is being elected.
                await asyncio.sleep(_PAUSE_S)
        self._note_master(found)
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
        Requests another SyncStateSet; a refusal of the controller ends this process.
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

    def _note_master(self, answer: MasterInfo) -> None:
        """
        Notes a new master, and ignores repeated notifications.
        """
        at_ns = time.monotonic_ns()
        if answer.master is None or answer.master_epoch <= self._lead.master_epoch:
            return
        self._lead = answer
        _print(
            {
                "master": answer.master.broker_id,
                "epoch": answer.master_epoch,
                "at_ns": at_ns,
            }
        )


def _print(event: dict[str, int]) -> None:
    print(json.dumps(event), flush=True)


def main() -> None:
    """
    Runs the broker.
    """
    controller, name, broker_id = sys.argv[1:]
    asyncio.run(Broker(controller, name, int(broker_id)).run())


if __name__ == "__main__":
    main()
