"""
A broker node: a replica of one set under its controllers.

It opens the store once, negotiates or reads its broker id, registers, sends heartbeats,
and hands what the controllers decide to the replica: masters, leases, the
SyncStateSet. It registers with name servers, so that slaves of RocketMQ find it.

The control plane is one event loop. The store and the replica have threads of their
own; nothing here waits for a disk or a peer on the loop.

Source: RMQ-R2 to RMQ-R4, RMQ-R43, RMQ-R153 to RMQ-R165; A15, B1, B2, C0, C1.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

from pystore.access.remote_gate import RemoteGate
from pystore.broker.config import NodeConfig, ha_address_of
from pystore.broker.controller_gateway import ThreadedGateway
from pystore.broker.heartbeats import HeartbeatSender
from pystore.broker.ill_replica import IllReplica
from pystore.broker.ill_store import IllStore, open_replica
from pystore.broker.link_guard import LinkGuardKeeper
from pystore.broker.node_upkeep import NodeUpkeep
from pystore.broker.recovery_facts import epoch_cache_of, recovery_of
from pystore.broker.registrar import Registrar
from pystore.broker.routes import RouteRegistration
from pystore.broker.segment_jobs import SegmentJobs
from pystore.broker.segment_requests import SegmentRequests
from pystore.clocks import wall_ms
from pystore.controller.client.client import ControllerClient, role_handler
from pystore.controller.identity.identity import ConfiguredIdentity, check_code
from pystore.controller.identity.negotiation import Negotiation
from pystore.controller.identity.registration import BrokerRegistration
from pystore.controller.identity.store import IdentityStore
from pystore.controller.protocol.calls import (
    CallRefused,
    ElectMaster,
    GetReplicaInfo,
    MasterInfo,
)
from pystore.controller.protocol.extensions import process_fields
from pystore.errors import ClosedError, InvalidError, PystoreError, UnavailableError
from pystore.events.event import Event
from pystore.events.node_events import log_node_event
from pystore.events.node_teller import NodeTeller
from pystore.fs.free_space import used_percent
from pystore.ha.decision import Decision
from pystore.ha.replica import Replica
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.net.address import parse_address
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection
from pystore.remoting.fields import decode_fields, encode_fields
from pystore.remoting.operator_headers import HandOverRequest, HandOverResponse
from pystore.remoting.reply import Reply
from pystore.remoting.server import RemotingServer
from pystore.replicaset import Member
from pystore.rocketmq.identity_file import BrokerIdentity

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from pystore.core.options import LogArguments
    from pystore.ha.result import ReplicaStatus

__all__ = ["BrokerNode"]

_PAUSE_MS = 100
_PAUSE_MAX_MS = 3_000


class BrokerNode:
    """
    One broker. An asynchronous context manager, for one event loop.

    Args:
        config: of the broker.
        say: receives one line for the operator, of what is no event, from any thread.
        on_node_event: takes each event of the node, in any thread; by default the
            logger ``pystore.broker`` has them. Those of its store are in `options`.
        disk_used: returns how full the file system of a directory is, in percent, or
            raises an OSError.
        **options: of `pystore.store.commit_log.CommitLog`.

    Attributes:
        replica: the store in its role; ``None`` until the broker is registered for the
            first time.
    """

    def __init__(
        self,
        config: NodeConfig,
        say: Callable[[str], object] = bool,
        on_node_event: Callable[[Event], object] = log_node_event,
        disk_used: Callable[[Path], int] = used_percent,
        **options: Unpack[LogArguments],
    ) -> None:
        self.config = config
        self.replica: Replica | None = None
        self._say = say
        self._on_event = on_node_event
        self._said = ""
        # Why the controllers elect no master.
        self._unelected = ""
        self._registrar: Registrar | None = None
        self._options = options
        self._upkeep = NodeUpkeep(config, say, self._tell, disk_used)
        self._log: ReplicaLog | None = None
        self._ill: IllStore | None = None
        self._promised_before = 0
        self._gateway: ThreadedGateway | None = None
        self._newest: MasterInfo | None = None
        self._registered = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._heartbeats: HeartbeatSender | None = None
        self._beating: asyncio.Task[None] | None = None
        self._client = ControllerClient(
            config.controllers,
            self._told,
            say=say,
            signs=config.signs,
            tls=config.client_tls,
        )
        self._links = LinkGuardKeeper(config, self._client, say)
        gate = RemoteGate(
            self._client.verify if config.signs is not None else None,
            lambda: self._links.now().is_required,
            say,
        )
        self._segments = SegmentRequests(
            config, say, lambda: self.replica, self._links.now
        )
        self._server = RemotingServer(
            gate.guard(
                {
                    RequestCode.NOTIFY_BROKER_ROLE_CHANGED: role_handler(
                        self._told, lambda: self._client.cluster_id
                    ),
                    RequestCode.GET_BROKER_EPOCH_CACHE: self._epochs,
                    RequestCode.HAND_OVER: self._handed_over,
                    **self._segments.handlers(),
                }
            ),
            say=say,
            tls=config.server_tls,
            admission=gate,
        )
        self._routes = RouteRegistration(config, say)

    async def __aenter__(self) -> BrokerNode:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """
        Opens the store, listens, and begins to register: that takes as long as no
        controller answers. A store that a repair may help is ill until it can be
        opened.

        Raises:
            PystoreError: as `pystore.store.store.Store`; or the address is in use.
        """
        config = self.config
        found = await asyncio.to_thread(open_replica, config.store, self._options)
        if isinstance(found, ReplicaLog):
            self._promised_before = found.log().promised_epoch
        try:
            host, port = parse_address(config.address)
            await self._server.start(host, port)
            await asyncio.to_thread(self._segments.begin, found)
        except BaseException:
            # Any error: the lock of the store is released.
            await asyncio.to_thread(self._segments.close)
            if isinstance(found, ReplicaLog):
                await asyncio.to_thread(found.close)
            raise
        if isinstance(found, ReplicaLog):
            self._log, life = found, self._run(found)
        else:
            self._ill, life = found, self._run_ill(found)
        self._running = asyncio.create_task(life)
        self._running.add_done_callback(self._ended)

    async def registered(self) -> Replica:
        """
        Waits until the broker is registered; returns its replica.

        Raises:
            InvalidError: the configuration does not fit the store.
            PystoreError: the identity in the store is damaged, or the store has failed.
        """
        running = self._running
        if running is None:
            raise ClosedError("the broker is not started, or closed")
        waiting = asyncio.create_task(self._registered.wait())
        try:
            await asyncio.wait((waiting, running), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
        finally:
            waiting.cancel()
        if self.replica is None:
            raise ClosedError("the broker was closed before it was registered")
        return self.replica

    @property
    def log(self) -> ReplicaLog | None:
        """
        The log of the store; ``None`` until it is open.
        """
        return self._log

    @property
    def segment_jobs(self) -> SegmentJobs | None:
        """
        The repairs of single segments; ``None`` until it takes some.
        """
        return self._segments.jobs

    @property
    def ill(self) -> IllStore | None:
        """
        The store, as long as it cannot be opened and takes repairs; ``None``: else.
        """
        return self._ill

    @property
    def problem(self) -> str:
        """
        Why its store cannot be opened, why the controllers do not register it, why no
        master may admit it, or why they elect no master, one line; empty: none of
        these.
        """
        if self._ill is not None:
            return self._ill.reason
        refused = "" if self._registrar is None else self._registrar.problem
        return refused or self._client.stranger or self._unelected

    @property
    def newest(self) -> MasterInfo | None:
        """
        The newest master that controllers named; ``None``: none yet.
        """
        return self._newest

    async def serve(self) -> None:
        """
        Waits until the broker follows its controllers no more, and raises why; returns
        when it is closed.

        Raises:
            PystoreError: as `registered`.
        """
        running = self._running
        if running is None:
            raise ClosedError("the broker is not started, or closed")
        await asyncio.wait((running,))
        error = _error_of(running)
        if error is not None:
            raise error

    async def close(self, drain_ms: int = 0) -> None:
        """
        Ends the role, tells the controllers that a mastership is given up, and closes
        the store. Idempotent.

        Args:
            drain_ms: how long slaves of a master may take to receive the rest.

        Raises:
            PystoreError: as `pystore.ha.replica.Replica.close`.
        """
        await _stop(self._running)
        await asyncio.to_thread(self._segments.close)
        try:
            if self.replica is not None:
                # Heartbeats go on until the mastership has ended, and tell its end.
                await asyncio.to_thread(self.replica.close, drain_ms)
            elif self._log is not None:
                await asyncio.to_thread(self._log.close)
        finally:
            await _stop(self._beating)
            if self._heartbeats is not None:
                await self._heartbeats.send_last()
            if self._gateway is not None:
                self._gateway.close()
            self._running = self._heartbeats = self._beating = None
            await self._routes.close()
            await self._client.close()
            await self._server.close()

    async def hand_over(self, broker_id: int, timeout_ms: int = 3_000) -> ReplicaStatus:
        """
        Hands the mastership over to another broker of the set; returns the status after
        that.

        Raises:
            PystoreError: as `pystore.ha.replica.Replica.hand_over`.
        """
        if self.replica is None or self._gateway is None:
            raise UnavailableError("this broker is not registered yet")
        return await asyncio.to_thread(
            self.replica.hand_over, broker_id, self._gateway.elect, timeout_ms
        )

    # -- the life of the broker ------------------------------------------------

    async def _run_ill(self, ill: IllStore) -> None:
        again = IllReplica(self.config, ill, self._client, self._say)
        self._log = log = await again.healed()
        self._ill = None
        self._promised_before = log.log().promised_epoch
        await asyncio.to_thread(self._segments.begin, log)
        self._say("the store is open again")
        await self._run(log)

    async def _run(self, log: ReplicaLog) -> None:
        again_ms = self.config.heartbeat_timeout_ms // 2
        config = self.config
        teller = NodeTeller(config.cluster, config.broker_name, sink=self._on_event)
        self._registrar = registrar = Registrar(
            self._registration(log), log, again_ms, teller
        )
        self._client.cluster_id = log.cluster_id
        done = await registrar.register()
        assert done.identity is not None
        cluster_id = self._client.told_cluster_id
        if cluster_id and not self._client.cluster_id:
            await asyncio.to_thread(log.join_cluster, cluster_id)
            self._client.cluster_id = cluster_id
        loop = asyncio.get_running_loop()
        self._gateway = ThreadedGateway(
            self._client, loop, done.identity, self._told, log.incarnation
        )
        place = replace(
            config.replica_config(done.identity.broker_id, self._say, self._on_event),
            is_registered=lambda: registrar.is_registered,
            guard=self._links.now,
        )
        self.replica = Replica(log, place, self._gateway)
        self._heartbeats = HeartbeatSender(
            self.config, self._client, self.replica, self._gateway
        )
        self._registered.set()
        for told in (done.mastership, self._newest):
            if told is not None:
                self._told(told)
        self._beating = asyncio.create_task(self._heartbeats.run())
        async with asyncio.TaskGroup() as group:
            group.create_task(self._poll(registrar, done.identity))
            group.create_task(
                self._links.run(self.replica.me, self.replica.guard_changed)
            )
            group.create_task(registrar.run(self._told))
            group.create_task(self._upkeep.watch_disk(self._heartbeats))
            group.create_task(self._routes.run(self.replica, done.identity.broker_id))
            if config.server_tls is not None:
                group.create_task(self._upkeep.watch_certificate(config.server_tls))
            if self.config.retention is not None:
                group.create_task(self._upkeep.retain(log, self.config.retention))

    def _registration(self, log: ReplicaLog) -> BrokerRegistration:
        config = self.config
        named = ConfiguredIdentity(
            config.cluster, config.broker_name, config.address, config.ha_address
        )
        recovery = recovery_of(log)
        return BrokerRegistration(
            Negotiation(
                named,
                lambda: check_code(config.address, wall_ms(), os.urandom(8)),
                recovery,
            ),
            IdentityStore(log.writer),
            self._client,
            _pause,
            self._refused,
        )

    def _refused(self, reason: str) -> None:
        assert self._registrar is not None
        self._registrar.refused(reason)

    async def _poll(self, registrar: Registrar, identity: BrokerIdentity) -> None:
        """
        Asks for the master at intervals: a notice may be lost; asks for an election if
        there is none, and has the broker registered again if the controller lost the
        set (RMQ-R43) or names another set than this broker's.
        """
        gateway, config, replica = self._gateway, self.config, self.replica
        assert gateway is not None
        assert replica is not None
        while True:
            found = await self._client.get_replica_info(GetReplicaInfo(identity.broker))
            if isinstance(found, CallRefused) and found.code == (
                ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST
            ):
                registrar.lost()
            if isinstance(found, MasterInfo):
                if found.master is None:
                    elect = ElectMaster(
                        identity.cluster, identity.broker, identity.broker_id
                    )
                    before = self._newest
                    elected = await self._client.elect_master(elect)
                    found = elected if isinstance(elected, MasterInfo) else found
                    # A notice of a master may have come before the refusal.
                    is_newest = self._newest is before
                    self._unelected = _remark_of(elected) if is_newest else ""
                self._told(found)
                await registrar.found(found, replica.me)
            if self._client.stranger:
                self._tell(self._client.stranger)
            await gateway.learn_brokers()
            await asyncio.sleep(config.poll_ms / 1000)

    def _told(self, told: MasterInfo) -> None:
        """
        Takes who is master, from whichever answer or notice; the replica ignores what
        is older than what it knows.
        """
        self._links.told(told)
        newest = self._newest
        if newest is None or told.master_epoch >= newest.master_epoch:
            self._newest = told
        if told.master is not None:
            self._unelected = ""
        if self.replica is None:
            return
        master = self._process_of(told, self.replica.me)
        address = self._ha_address_of(told, self.replica)
        is_learner = self.replica.me.broker_id in told.learners
        self.replica.decided(
            Decision(
                told.master_epoch,
                master,
                address,
                told.agreed,
                is_learner=is_learner,
            )
        )

    def _process_of(self, told: MasterInfo, me: Member) -> Member | None:
        """
        Returns the master. Controllers of RocketMQ name it by its id alone. In an epoch
        that was promised before this process began, an earlier one may be meant, and
        this one may lack what that one acknowledged (B1).
        """
        is_by_id = told.master == Member(me.broker_id)
        is_news = told.master_epoch > self._promised_before
        if is_by_id and is_news and not self._client.told_cluster_id:
            return me
        return told.master

    def _ha_address_of(self, told: MasterInfo, replica: Replica) -> str:
        if told.master is not None and told.master == replica.me:
            return self.config.ha_address
        try:
            if told.ha_address or not told.master_address:
                return told.ha_address
            return ha_address_of(told.master_address)
        except InvalidError as error:
            # As another broker registered it: there is no master to follow until a
            # controller names one that has an address.
            self._tell(
                f"the master of epoch {told.master_epoch} has no address: {error}"
            )
            return ""

    def _ended(self, task: asyncio.Task[None]) -> None:
        """
        Tells why the broker follows its controllers no more; `registered` raises it.
        """
        error = _error_of(task)
        if error is not None:
            self._tell(f"this broker follows its controllers no more: {error}")

    def _tell(self, line: str) -> None:
        if line != self._said:
            self._said = line
            self._say(line)

    async def _handed_over(self, request: RemotingCommand, _: Connection) -> Reply:
        header = decode_fields(HandOverRequest, request.ext_fields)
        try:
            status = await self.hand_over(header.broker_id, header.timeout_millis)
        except PystoreError as error:
            # This broker stays master.
            return Reply(ResponseCode.SYSTEM_ERROR, str(error))
        return Reply(ext_fields=encode_fields(HandOverResponse(status.epoch)))

    async def _epochs(self, _: RemotingCommand, __: Connection) -> Reply:
        replica, config, own = self.replica, self.config, self._log or self._ill
        try:
            process = process_fields(own.incarnation) if own is not None else {}
            if replica is None:
                why = self.problem if self._ill else "the broker is not registered yet"
                return Reply(ResponseCode.SYSTEM_ERROR, why, process)
            body = epoch_cache_of(replica, config).encode()
        except ClosedError as error:
            # This broker ends, and still answers.
            return Reply(ResponseCode.SYSTEM_ERROR, str(error))
        return Reply(ext_fields=process, body=body)


def _remark_of(answer: object) -> str:
    return answer.remark if isinstance(answer, CallRefused) else ""


def _error_of(task: asyncio.Task[None]) -> BaseException | None:
    """
    Returns why a finished task failed; of several reasons the first one.
    """
    error = None if task.cancelled() else task.exception()
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _stop(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _pause(failures: int) -> None:
    longest_ms = min(_PAUSE_MS << min(failures, 10), _PAUSE_MAX_MS)
    await asyncio.sleep(random.uniform(0.5, 1) * longest_ms / 1000)
