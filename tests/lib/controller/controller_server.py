"""
A controller on a real socket with records in memory, and brokers of pystore that send
their requests by hand.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lib.controller.broker_set_driver import start
from lib.remoting.virtual_time_loop import until
from pystore.controller.model.commands import AlterSet, Recovery
from pystore.controller.protocol.extensions import (
    HeartbeatExtension,
    LeaseGrant,
    heartbeat_extension_fields,
    lease_of,
    process_fields,
    recovery_fields,
)
from pystore.controller.protocol.set_extensions import alter_set_fields
from pystore.controller.server.config import ControllerConfig
from pystore.controller.server.controller import Controller
from pystore.events.event import Event
from pystore.records.memory import Fault, MemorySpace, MemoryStore
from pystore.records.record_store import RecordStore
from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection
from pystore.remoting.controller_bodies import SyncStateSet
from pystore.remoting.controller_headers import (
    AlterSyncStateSetRequest,
    ApplyBrokerIdRequest,
    BrokerHeartbeat,
    ElectMasterRequest,
    ElectMasterResponse,
    GetMetadataResponse,
    NotifyRoleChanged,
    RegisterBrokerToControllerRequest,
)
from pystore.remoting.fields import decode_fields, encode_fields
from pystore.remoting.reply import Reply
from pystore.remoting.server import RemotingServer
from pystore.replicaset import Member, ids_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["Running", "SpokenBroker", "running"]


@dataclass
class Running:
    """
    A controller at work.

    Attributes:
        controller: it.
        address: where it listens.
        said: what it said to people.
        client: an administrator.
        stores: the sessions that it opened.
        told: its events.
        brokers: that speak with it; they end with the test.
    """

    controller: Controller
    address: str
    said: list[str]
    client: RemotingClient
    stores: list[RecordStore]
    told: list[Event] = field(default_factory=list)
    brokers: list[SpokenBroker] = field(default_factory=list)

    async def ask(
        self,
        code: int,
        header: DataclassInstance | None = None,
        body: bytes = b"",
        added: Mapping[str, str] | None = None,
        client: RemotingClient | None = None,
    ) -> RemotingCommand:
        """
        Returns the answer to a request.
        """
        fields = encode_fields(header) if header is not None else {}
        request = RemotingCommand(
            code, ext_fields={**fields, **(added or {})}, body=body
        )
        return await (client or self.client).call(self.address, request)

    async def metadata(self) -> GetMetadataResponse:
        """
        Returns the answer to 1005.
        """
        answer = await self.ask(RequestCode.CONTROLLER_GET_METADATA_INFO)
        return decode_fields(GetMetadataResponse, answer.ext_fields)


@asynccontextmanager
async def running(
    space: MemorySpace | None = None,
    settings: ControllerConfig | None = None,
    *,
    length_ns: int | None = None,
    leads: bool = True,
    waking_ns: Callable[[], int] = lambda: 0,
    faults: Callable[[str], Fault] = lambda _: Fault.NONE,
) -> AsyncIterator[Running]:
    """
    A controller for as long as a test lasts.

    Args:
        space: of its records, if others share it.
        settings: its own.
        length_ns: of its terms.
        leads: wait until it does.
        waking_ns: a clock that advances while the process is paused.
        faults: of its records, called with the operation's name at each call.
    """
    shared, said, told = space or MemorySpace(), list[str](), list[Event]()
    stores: list[RecordStore] = []
    loop = asyncio.get_running_loop()

    def clock_ns() -> int:
        return int(loop.time() * 1e9)

    def opened() -> RecordStore:
        stores.append(
            MemoryStore(shared, faults=faults, clock_ns=clock_ns, length_ns=length_ns)
        )
        return stores[-1]

    controller = Controller(
        settings or ControllerConfig(listen="127.0.0.1:0"),
        opened,
        said.append,
        tell=told.append,
        clock_ns=clock_ns,
        draw=random.Random(1),
        waking_ns=waking_ns,
    )
    places: list[str] = []
    task = asyncio.create_task(controller.run(places.append))
    try:
        await until(lambda: places or task.done())
        if leads:
            await until(lambda: controller.leads or task.done())
        async with RemotingClient() as client:
            at = Running(controller, places[0], said, client, stores, told)
            try:
                yield at
            finally:
                for broker in at.brokers:
                    await broker.die()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@dataclass
class SpokenBroker:
    """
    One broker of pystore, of the set ``set`` in ``cluster``.

    Attributes:
        running: the controller.
        broker_id: its own.
        recovery: what it says as it registers.
        address: that it registers; it is listened on after `listen`.
        told: the notifications that it got.
        disk_used_percent: that its heartbeats tell.
        disk_problem: the same.
    """

    running: Running
    broker_id: int
    recovery: Recovery = field(default_factory=lambda: start(1))
    address: str = ""
    told: list[NotifyRoleChanged] = field(default_factory=list)
    end: int = 0
    disk_used_percent: int = -1
    disk_problem: str = ""

    def __post_init__(self) -> None:
        self.running.brokers.append(self)
        self._server: RemotingServer | None = None
        self._connect()

    @property
    def member(self) -> Member:
        """
        Its present process.
        """
        return Member(self.broker_id, self.recovery.incarnation)

    async def listen(self) -> None:
        """
        Listens at an address, and answers there which process it is.
        """
        self._server = RemotingServer({RequestCode.GET_BROKER_EPOCH_CACHE: self._name})
        host, port = await self._server.start("127.0.0.1", 0)
        self.address = f"{host}:{port}"

    async def hang_up(self) -> None:
        """
        Its connections to the controller end; the process lives.
        """
        await self._client.close()
        self._connect()

    async def await_hang_up(self) -> None:
        """
        Waits until the controller ends its connection.
        """
        await until(lambda: not self._client.addresses)

    async def join(self) -> None:
        """
        Applies for its id, registers and sends a heartbeat.
        """
        self.address = self.address or f"127.0.0.1:{10_000 + self.broker_id}"
        applied = await self._ask(
            RequestCode.CONTROLLER_APPLY_BROKER_ID,
            ApplyBrokerIdRequest("cluster", "set", self.broker_id, f"{self.address};1"),
        )
        assert applied.code == 0, applied
        registered = await self.register()
        assert registered == 0, registered
        await self.beat()

    async def register(self) -> int:
        """
        Registers, and returns the code of the answer.
        """
        header = RegisterBrokerToControllerRequest(
            "cluster", "set", self.broker_id, self.address
        )
        added = recovery_fields(self.recovery)
        code = RequestCode.CONTROLLER_REGISTER_BROKER
        return (await self._ask(code, header, added=added)).code

    async def beat(self, epoch: int = 0, resigned_epoch: int = -1) -> LeaseGrant:
        """
        Sends a heartbeat, and returns the lease that came with the answer.
        """
        beat = BrokerHeartbeat(
            self.broker_id,
            "cluster",
            self.address,
            "set",
            epoch=epoch,
            max_offset=self.end,
        )
        extension = HeartbeatExtension(
            self.recovery.incarnation,
            disk_problem=self.disk_problem,
            resigned_epoch=resigned_epoch,
            disk_used_percent=self.disk_used_percent,
        )
        answer = await self._ask(
            RequestCode.BROKER_HEARTBEAT,
            beat,
            added=heartbeat_extension_fields(extension),
        )
        grant = lease_of(answer.ext_fields)
        assert grant is not None
        return grant

    async def elect(self) -> ElectMasterResponse:
        """
        Requests an election, and returns the master.
        """
        answer = await self._ask(
            RequestCode.CONTROLLER_ELECT_MASTER,
            ElectMasterRequest("cluster", "set", self.broker_id),
        )
        return decode_fields(ElectMasterResponse, answer.ext_fields)

    async def alter(
        self, members: frozenset[Member], epoch: int, set_epoch: int
    ) -> RemotingCommand:
        """
        Asks for another set.
        """
        command = AlterSet(self.member, epoch, set_epoch, members)
        return await self._ask(
            RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET,
            AlterSyncStateSetRequest("set", self.broker_id, epoch),
            SyncStateSet(ids_of(members), set_epoch).encode(),
            alter_set_fields(command),
        )

    async def die(self) -> None:
        """
        Its process ends; again is fine.
        """
        await self._client.close()
        if self._server is not None:
            await self._server.close()
            self._server = None

    def _connect(self) -> None:
        self._client = RemotingClient(
            handlers={RequestCode.NOTIFY_BROKER_ROLE_CHANGED: self._hear}
        )

    async def _name(self, _: RemotingCommand, __: Connection) -> Reply:
        return Reply(ext_fields=process_fields(self.recovery.incarnation))

    async def _ask(
        self,
        code: int,
        header: DataclassInstance,
        body: bytes = b"",
        added: Mapping[str, str] | None = None,
    ) -> RemotingCommand:
        return await self.running.ask(code, header, body, added, self._client)

    async def _hear(self, request: RemotingCommand, _: Connection) -> Reply:
        self.told.append(decode_fields(NotifyRoleChanged, request.ext_fields))
        return Reply()
