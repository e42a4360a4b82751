"""
The client of a broker for its controllers: finds the leader and sends requests to it.

Each call is sent at most once and ends in bounded time: with an answer, with a refusal,
or unanswered (`pystore.controller.protocol.calls`). The client repeats no request: only
the caller knows which request may be sent again.

Source: formats 4; RMQ-R2 to RMQ-R4, RMQ-R28, RMQ-R112; docs/identity.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from pystore.controller.client.discovery import TIMEOUT_MS, Discovery
from pystore.controller.client.leader_lookup import LeaderLookup, look_up
from pystore.controller.model.replies import Done, NextBrokerId
from pystore.controller.protocol.calls import (
    AlterSyncStateSet,
    Answer,
    ApplyBrokerId,
    Call,
    CallRefused,
    CallUnanswered,
    ElectMaster,
    GetMetadata,
    GetNextBrokerId,
    GetReplicaInfo,
    HeartbeatAnswer,
    MasterInfo,
    Metadata,
    RegisterBroker,
    SendHeartbeat,
)
from pystore.controller.protocol.client_codec import (
    answer_of,
    command_of,
    master_info_of,
)
from pystore.controller.protocol.cluster_id import (
    cluster_id_fields,
    cluster_id_of,
    refusal_of,
)
from pystore.errors import InvalidError, UnavailableError
from pystore.net.tls import ClientTls
from pystore.remoting.admission import Signs
from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection, Handler
from pystore.remoting.errors import NotSent
from pystore.remoting.reply import Reply
from pystore.replicaset import AgreedSet

if TYPE_CHECKING:
    from types import TracebackType

    from pystore.controller.client.leader_lookup import LookUp

__all__ = ["ControllerClient", "role_handler"]

_A = TypeVar("_A")

_STRANGE = {ResponseCode.OTHER_CLUSTER, ResponseCode.CLUSTER_NOT_BEGUN}


def role_handler(
    told: Callable[[MasterInfo], object], cluster_id: Callable[[], str] = str
) -> Handler:
    """
    Returns the handler of 1008. A notice of the controllers of another record store is
    refused.

    Controllers of RocketMQ connect to the broker's address for it, so the broker's own
    server needs the handler. The client also takes 1008 on its own connections.
    """

    async def take(request: RemotingCommand, _: Connection) -> Reply:
        refusal = refusal_of(cluster_id(), cluster_id_of(request.ext_fields))
        if refusal:
            return Reply(ResponseCode.OTHER_CLUSTER, refusal)
        told(master_info_of(request))
        return Reply()

    return take


class ControllerClient:
    """
    Calls to controllers; an asynchronous context manager, for one event loop.

    It is `pystore.controller.protocol.calls.ControllerCalls`.

    Args:
        addresses: `pystore.controller.client.discovery.parse_addresses`.
        role_changed: called with each notification (1008), which may be older than what
            the broker knows.
        timeout_ms: for each request. A call takes one such time for itself, and one for
            each controller that is asked for the leader.
        look_up: resolves a name to addresses.
        wall_ms: the time of day, which jRaft controllers use as theirs.
        say: receives one line for people about each failed connection.
        cluster_id: of the record store to which the broker belongs; empty: none yet.
        signs: signs each request; ``None``: nothing is signed.
        tls: of the connections; ``None``: plain bytes.

    Attributes:
        cluster_id: the same; may be set once it is known.
        told_cluster_id: what the leader told last; empty: nothing.
        stranger: why a controller was not taken for one of the broker's, as one line;
            empty: none since a leader was found.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        role_changed: Callable[[MasterInfo], object] = bool,
        *,
        cluster_id: str = "",
        timeout_ms: int = TIMEOUT_MS,
        look_up: LookUp = look_up,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        say: Callable[[str], object] = bool,
        signs: Signs[Connection] | None = None,
        tls: ClientTls | None = None,
    ) -> None:
        self._timeout_ms = timeout_ms
        self._wall_ms = wall_ms
        self.cluster_id = cluster_id
        self.told_cluster_id = ""
        self.stranger = ""
        handlers: dict[int, Handler] = {
            RequestCode.NOTIFY_BROKER_ROLE_CHANGED: role_handler(
                role_changed, lambda: self.cluster_id
            )
        }
        self._remoting = RemotingClient(
            handlers=handlers, say=say, signs=signs, tls=tls
        )
        discovery = Discovery(addresses, timeout_ms)
        self._search = LeaderLookup(discovery, self._metadata, look_up, timeout_ms)

    @property
    def leader(self) -> str | None:
        """
        ``HOST:PORT`` of the leader, if it is known.
        """
        return self._search.leader

    @property
    def known(self) -> tuple[str, ...]:
        """
        ``HOST:PORT`` of every controller: heartbeats go to all of them.
        """
        return self._search.known

    def disconnect(self) -> None:
        """
        Ends all connections: what is sent from now on comes on newer ones, as that of
        another process.
        """
        self._remoting.disconnect()

    async def close(self) -> None:
        """
        Closes all connections; pending calls fail. Idempotent.
        """
        await self._search.close()
        await self._remoting.close()

    async def __aenter__(self) -> ControllerClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # -- the calls -----------------------------------------------------------

    async def get_metadata(
        self, address: str
    ) -> Metadata | CallRefused | CallUnanswered:
        """
        Ask one controller for its leader.
        """
        return await self._metadata(address, self._timeout_ms)

    async def get_next_broker_id(
        self, request: GetNextBrokerId
    ) -> NextBrokerId | CallRefused | CallUnanswered:
        """
        Ask for an id to apply for.
        """
        return _end(NextBrokerId, await self._ask_leader(request))

    async def apply_broker_id(
        self, request: ApplyBrokerId
    ) -> Done | CallRefused | CallUnanswered:
        """
        Apply for an id.
        """
        return _end(Done, await self._ask_leader(request))

    async def register_broker(
        self, request: RegisterBroker
    ) -> MasterInfo | CallRefused | CallUnanswered:
        """
        Register the broker's process and address; the answer names the master.
        """
        return _end(MasterInfo, await self._ask_leader(request))

    async def elect_master(
        self, request: ElectMaster
    ) -> MasterInfo | CallRefused | CallUnanswered:
        """
        Request an election.
        """
        return _end(MasterInfo, await self._ask_leader(request))

    async def get_replica_info(
        self, request: GetReplicaInfo
    ) -> MasterInfo | CallRefused | CallUnanswered:
        """
        Ask for the master of the set.
        """
        return _end(MasterInfo, await self._ask_leader(request))

    async def alter_sync_state_set(
        self, request: AlterSyncStateSet
    ) -> AgreedSet | CallRefused | CallUnanswered:
        """
        Propose another SyncStateSet.
        """
        return _end(AgreedSet, await self._ask_leader(request))

    async def heartbeat(
        self, address: str, request: SendHeartbeat
    ) -> HeartbeatAnswer | CallRefused | CallUnanswered:
        """
        Tell one controller that the broker is alive.
        """
        answer = await self._ask(address, request, self._timeout_ms)
        return _end(HeartbeatAnswer, answer)

    async def verify(self, frame: bytes) -> RemotingCommand:
        """
        Returns the leader's answer to the question who sent a request to this broker
        (7115).

        Args:
            frame: of the request.

        Raises:
            UnavailableError: as `call_leader`.
        """
        return await self.call_leader(
            RemotingCommand(RequestCode.VERIFY_REQUEST, body=frame)
        )

    async def call_leader(self, request: RemotingCommand) -> RemotingCommand:
        """
        Returns the leader's answer to a request. One that does not answer, or says that
        it leads no more, is not taken for the leader by the next call.

        Raises:
            UnavailableError: no controller leads, or it does not answer.
        """
        reason = await self._search.find()
        leader = self._search.leader
        if leader is None:
            raise UnavailableError(reason or "the leader was lost again")
        try:
            answer = await self._remoting.call(leader, request, self._timeout_ms)
        except UnavailableError:
            self._search.lost(leader, is_reachable=False)
            raise
        if answer.code == ResponseCode.CONTROLLER_NOT_LEADER:
            self._search.lost(leader, is_reachable=True)
        return answer

    # -- internals --------------------------------------------------------------

    async def _metadata(
        self, address: str, timeout_ms: int
    ) -> Metadata | CallRefused | CallUnanswered:
        try:
            return _end(Metadata, await self._ask(address, GetMetadata(), timeout_ms))
        except InvalidError as error:
            # Another controller named this address.
            return CallUnanswered(str(error), may_be_done=False)

    async def _ask_leader(self, request: Call) -> Answer:
        reason = await self._search.find()
        leader = self._search.leader
        if leader is None:
            return CallUnanswered(
                reason or "the leader was lost again", may_be_done=False
            )
        answer = await self._ask(leader, request, self._timeout_ms)
        match answer:
            case CallRefused(code=ResponseCode.CONTROLLER_NOT_LEADER):
                self._search.lost(leader, is_reachable=True)
            case CallUnanswered():
                self._search.lost(leader, is_reachable=False)
        return answer

    async def _ask(self, address: str, request: Call, timeout_ms: int) -> Answer:
        command = command_of(request, self._wall_ms())
        if self.cluster_id:
            own = cluster_id_fields(self.cluster_id)
            command = replace(command, ext_fields={**command.ext_fields, **own})
        try:
            response = await self._remoting.call(address, command, timeout_ms)
        except UnavailableError as error:
            # Whether it was sent decides whether it may have been carried out.
            return CallUnanswered(
                str(error), may_be_done=not isinstance(error, NotSent)
            )
        told = cluster_id_of(response.ext_fields)
        refusal = refusal_of(self.cluster_id, told)
        if refusal:
            self.stranger = f"{address}: {refusal}"
            return CallRefused(ResponseCode.OTHER_CLUSTER, refusal)
        if response.code in _STRANGE:
            self.stranger = f"{address}: {response.remark}"
        elif address == self._search.leader:
            self.told_cluster_id, self.stranger = told, ""
        return answer_of(request, response)


def _end(kind: type[_A], answer: Answer) -> _A | CallRefused | CallUnanswered:
    """
    Returns an answer with the type that its request has (`answer_of`).
    """
    assert isinstance(answer, kind | CallRefused | CallUnanswered)
    return answer
