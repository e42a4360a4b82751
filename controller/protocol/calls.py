"""
The calls of a broker to a controller, and their results. Pure: values, no bytes.

A request is a value, and so is each of its three results: an answer, a refusal with
RocketMQ's code, or no clear answer in time. The third one says whether the request may
be done, which a refusal excludes (RMQ-R28).

The fields are those of RocketMQ's headers under the names of this project. `Recovery`,
`HeartbeatExtension` and incarnations are extensions of pystore, which RocketMQ's
controllers ignore. `pystore.controller.client.client` carries the calls out: it finds
the leader and sets ``invokeTime``.

Source: formats 4.2 to 4.8, 4.13.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pystore.access.mode import AccessMode
from pystore.controller.model.commands import AlterSet, Recovery
from pystore.controller.model.replica import LogStanding
from pystore.controller.model.replies import Done, NextBrokerId
from pystore.controller.protocol.extensions import HeartbeatExtension, LeaseGrant
from pystore.remoting.codes import HEARTBEAT_TIMEOUT_MS, LOWEST_PRIORITY
from pystore.replicaset import NO_SET, AgreedSet, Incarnation, Member

__all__ = [
    "AlterSyncStateSet",
    "Answer",
    "ApplyBrokerId",
    "Call",
    "CallRefused",
    "CallUnanswered",
    "ControllerCalls",
    "ElectMaster",
    "GetMetadata",
    "GetNextBrokerId",
    "GetReplicaInfo",
    "HeartbeatAnswer",
    "MasterInfo",
    "Metadata",
    "RegisterBroker",
    "SendHeartbeat",
]

# -- the results of a call ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CallRefused:
    """
    The controller refused the request, and did nothing.

    Attributes:
        code: RocketMQ's response code, not 0.
        remark: its text for people; may be empty.
        broker_ids: the brokers that caused it; empty: unknown (RMQ-R111).
        agreed: of 1001 with 2000 or 2001: the present set, which settles earlier
            unanswered requests; ``None``: unknown, as from RocketMQ.
    """

    code: int
    remark: str = ""
    broker_ids: frozenset[int] = frozenset()
    agreed: AgreedSet | None = None


@dataclass(frozen=True, slots=True)
class CallUnanswered:
    """
    No answer arrived in time, or an unclear one.

    Attributes:
        reason: one line.
        may_be_done: ``False``: the request was not sent, so it is not done.
    """

    reason: str
    may_be_done: bool = True


# -- requests and their answers ------------------------------------------


@dataclass(frozen=True, slots=True)
class GetMetadata:
    """
    1005: asks for the leading controller. `Metadata` answers it.
    """


@dataclass(frozen=True, slots=True)
class Metadata:
    """
    The answer to 1005: what a controller knows about its group.

    Attributes:
        is_leader: whether the answering controller leads.
        leader_address: ``HOST:PORT`` of the leader that it knows; empty: none.
        leader_id: of the same, as the group names it.
        group: its name.
        peers: the members of the group.
    """

    is_leader: bool
    leader_address: str = ""
    leader_id: str = ""
    group: str = ""
    peers: str = ""


@dataclass(frozen=True, slots=True)
class GetNextBrokerId:
    """
    1012: asks for the id that a new broker may apply for.
    """

    cluster: str
    broker: str


@dataclass(frozen=True, slots=True)
class ApplyBrokerId:
    """
    1013: allocates this id to the broker with this code. `Done` answers it; a
    repetition with the same code changes nothing (RMQ-R26).
    """

    cluster: str
    broker: str
    broker_id: int
    register_check_code: str


@dataclass(frozen=True, slots=True)
class RegisterBroker:
    """
    1003: registers a broker process at this address. `MasterInfo` answers it.

    Attributes:
        recovery: what the process found in its store.
        ha_address: ``HOST:PORT`` where it serves slaves; empty: unknown.
    """

    cluster: str
    broker: str
    broker_id: int
    address: str
    recovery: Recovery | None = None
    ha_address: str = ""


@dataclass(frozen=True, slots=True)
class MasterInfo:
    """
    The master of a set: the answer to 1002, 1003 and 1004, the content of 1008.

    Attributes:
        master: ``None``: none, or none that is alive; RocketMQ's controllers send no
            incarnations.
        master_address: ``HOST:PORT``; empty: unknown.
        master_epoch: of the mastership.
        agreed: the SyncStateSet.
        is_new: of 1002: whether this request elected it; else it was master before
            (2011).
        waits_for_lease: `leader` acks have to wait: the lease of a former master may
            still run (C3).
        standing: of 1003: of the broker's log; ``None``: RocketMQ's controllers send
            none.
        ha_address: ``HOST:PORT`` where the master serves slaves; empty: unknown, as
            from RocketMQ's controllers.
        links: how the controllers guard links; ``None``: they give no secrets.
        learners: the ids of the brokers that only follow; empty: none, or RocketMQ's
            controllers, which know no learners.
    """

    master: Member | None = None
    master_address: str = ""
    master_epoch: int = 0
    agreed: AgreedSet = NO_SET
    is_new: bool = False
    waits_for_lease: bool = False
    standing: LogStanding | None = None
    ha_address: str = ""
    links: AccessMode | None = None
    learners: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class ElectMaster:
    """
    1002: requests an election. `MasterInfo` answers it.

    Attributes:
        broker_id: the requester, or the designated master; -1: none.
        is_designated: an operator designates ``broker_id``.
        handed_over: of a master that asks for its successor: its process and its epoch.
    """

    cluster: str
    broker: str
    broker_id: int = -1
    is_designated: bool = False
    handed_over: tuple[Incarnation, int] | None = None


@dataclass(frozen=True, slots=True)
class GetReplicaInfo:
    """
    1004: asks for the master of a set. `MasterInfo` answers it.
    """

    broker: str


@dataclass(frozen=True, slots=True)
class AlterSyncStateSet:
    """
    1001: the master requests another SyncStateSet. `AgreedSet` answers it.

    A controller of RocketMQ knows neither candidates nor fences: it refuses a set of
    the same ids (2013).
    """

    broker: str
    change: AlterSet


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    """
    904: the heartbeat of a broker, sent to every controller. `HeartbeatAnswer` answers
    it.

    Attributes:
        epoch: the last one of its log; -1: none.
        max_offset: the end of its log, in bytes.
        confirm_offset: in bytes.
        timeout_ms: how long the heartbeat is valid.
        priority: of an election among equals; the lower is preferred.
        extension: of the process.
    """

    cluster: str
    broker: str
    broker_id: int
    address: str
    epoch: int = -1
    max_offset: int = -1
    confirm_offset: int = -1
    timeout_ms: int = HEARTBEAT_TIMEOUT_MS
    priority: int = LOWEST_PRIORITY
    extension: HeartbeatExtension | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """
    The answer to 904.

    Attributes:
        lease: of the master, from the sending of the heartbeat (C1); ``None``: this
            controller grants no leases.
    """

    lease: LeaseGrant | None = None


Call = (
    GetMetadata
    | GetNextBrokerId
    | ApplyBrokerId
    | RegisterBroker
    | ElectMaster
    | GetReplicaInfo
    | AlterSyncStateSet
    | SendHeartbeat
)

Answer = (
    NextBrokerId
    | Done
    | MasterInfo
    | AgreedSet
    | Metadata
    | HeartbeatAnswer
    | CallRefused
    | CallUnanswered
)


class ControllerCalls(Protocol):
    """
    The calls of a broker. Each ends in bounded time. None raises for a failure of the
    network or a controller: the result is `CallRefused` or `CallUnanswered`.

    All but the first and the last go to the leader.
    """

    async def get_metadata(
        self, address: str
    ) -> Metadata | CallRefused | CallUnanswered:
        """
        Ask one controller for its leader.
        """
        ...

    async def get_next_broker_id(
        self, request: GetNextBrokerId
    ) -> NextBrokerId | CallRefused | CallUnanswered:
        """
        Ask for an id to apply for.
        """
        ...

    async def apply_broker_id(
        self, request: ApplyBrokerId
    ) -> Done | CallRefused | CallUnanswered:
        """
        Apply for an id.
        """
        ...

    async def register_broker(
        self, request: RegisterBroker
    ) -> MasterInfo | CallRefused | CallUnanswered:
        """
        Register the broker's process and address; the answer names the master.
        """
        ...

    async def elect_master(
        self, request: ElectMaster
    ) -> MasterInfo | CallRefused | CallUnanswered:
        """
        Request an election.
        """
        ...

    async def get_replica_info(
        self, request: GetReplicaInfo
    ) -> MasterInfo | CallRefused | CallUnanswered:
        """
        Ask for the master of the set.
        """
        ...

    async def alter_sync_state_set(
        self, request: AlterSyncStateSet
    ) -> AgreedSet | CallRefused | CallUnanswered:
        """
        Propose another SyncStateSet.
        """
        ...

    async def heartbeat(
        self, address: str, request: SendHeartbeat
    ) -> HeartbeatAnswer | CallRefused | CallUnanswered:
        """
        Tell one controller that the broker is alive.
        """
        ...
