"""
What a broker asks a controller, and what it may hear. Pure: values, no bytes.

A request is a value, and so is each of its three ends: an answer, a refusal with
RocketMQ's code, or nothing that could be understood in time. The last one says whether
it may have been done all the same, which is another thing than a refusal (R28).

The fields are those of RocketMQ's headers under the names of this project; `Recovery`,
`HeartbeatExtension` and incarnations are what pystore adds, and what RocketMQ's
controllers pass over. Who carries the calls out finds the leader
(`pystore.controller.client.client`), and fills in ``invokeTime``.

Source: formats 4.2 to 4.8, 4.13.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pystore.controller.model.commands import AlterSet, Recovery
from pystore.controller.model.replica import LogStanding
from pystore.controller.model.replies import Done, NextBrokerId
from pystore.controller.protocol.extensions import HeartbeatExtension, LeaseGrant
from pystore.remoting.codes import HEARTBEAT_TIMEOUT_MS, LOWEST_PRIORITY
from pystore.replicaset import NO_SET, AgreedSet, Member

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

# -- the ends of a call ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CallRefused:
    """
    The controller answered, and did not do it.

    Attributes:
        code: RocketMQ's response code, not 0.
        remark: what it wrote for people; may be empty.
        broker_ids: whom it is about; empty: not told (R111).
        agreed: of 1001 with 2000 or 2001: the set as it is, which settles earlier
            requests without an answer; ``None``: not told, as by RocketMQ.
    """

    code: int
    remark: str = ""
    broker_ids: frozenset[int] = frozenset()
    agreed: AgreedSet | None = None


@dataclass(frozen=True, slots=True)
class CallUnanswered:
    """
    No answer came in time, or none that settles it.

    Attributes:
        reason: one line.
        may_be_done: ``False``: it was not sent, so it was not done either.
    """

    reason: str
    may_be_done: bool = True


# -- requests and what answers them ------------------------------------------


@dataclass(frozen=True, slots=True)
class GetMetadata:
    """
    1005: which controller leads. `Metadata` answers it.
    """


@dataclass(frozen=True, slots=True)
class Metadata:
    """
    The answer to 1005: what a controller knows of its group.

    Attributes:
        is_leader: whether the one that answered leads.
        leader_address: ``HOST:PORT`` of whom it takes for the leader; empty: nobody.
        leader_id: of the same, as the group names it.
        group: its name.
        peers: the group's members, as they are configured.
    """

    is_leader: bool
    leader_address: str = ""
    leader_id: str = ""
    group: str = ""
    peers: str = ""


@dataclass(frozen=True, slots=True)
class GetNextBrokerId:
    """
    1012: which id a new broker of a set may apply for.
    """

    cluster: str
    broker: str


@dataclass(frozen=True, slots=True)
class ApplyBrokerId:
    """
    1013: give this id to whoever shows this code. `Done` answers it; again with the
    same code it changes nothing (R26).
    """

    cluster: str
    broker: str
    broker_id: int
    register_check_code: str


@dataclass(frozen=True, slots=True)
class RegisterBroker:
    """
    1003: a broker is there, at this address. `MasterInfo` answers it.

    Attributes:
        recovery: what the process found in its store.
    """

    cluster: str
    broker: str
    broker_id: int
    address: str
    recovery: Recovery | None = None


@dataclass(frozen=True, slots=True)
class MasterInfo:
    """
    Who is master of a set: the answer to 1002, 1003 and 1004, the body of 1008.

    Attributes:
        master: ``None``: nobody, or nobody that is alive; a controller of RocketMQ
            tells no incarnations.
        master_address: ``HOST:PORT``; empty: not told.
        master_epoch: of the mastership.
        agreed: the SyncStateSet.
        is_new: of 1002: whether this request decided it; else it stood already
            (2011).
        waits_for_lease: `leader` modes have to wait: the lease of a former master
            may still run (C3).
        standing: of 1003: what the controller makes of the broker's log; ``None``:
            it judges none.
    """

    master: Member | None = None
    master_address: str = ""
    master_epoch: int = 0
    agreed: AgreedSet = NO_SET
    is_new: bool = False
    waits_for_lease: bool = False
    standing: LogStanding | None = None


@dataclass(frozen=True, slots=True)
class ElectMaster:
    """
    1002: a set needs a master. `MasterInfo` answers it.

    Attributes:
        broker_id: who asks, or who is to be it; -1: nobody in particular.
        is_designated: an operator wants ``broker_id``.
    """

    cluster: str
    broker: str
    broker_id: int = -1
    is_designated: bool = False


@dataclass(frozen=True, slots=True)
class GetReplicaInfo:
    """
    1004: who is master of a set. `MasterInfo` answers it.
    """

    broker: str


@dataclass(frozen=True, slots=True)
class AlterSyncStateSet:
    """
    1001: the master wants another SyncStateSet. `AgreedSet` answers it.

    A controller of RocketMQ knows neither candidates nor fences: a set of the same
    ids is refused by it, whatever else is wanted (2013).
    """

    broker: str
    change: AlterSet


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    """
    904: a broker is alive. Goes to every controller; `HeartbeatAnswer` answers it.

    Attributes:
        epoch: the last one of its log; -1: none.
        max_offset: where its log ends, in bytes.
        confirm_offset: in bytes.
        timeout_ms: how long it counts as alive.
        priority: of an election among equals; the lower is preferred.
        vitals: of the process.
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
    vitals: HeartbeatExtension | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """
    The answer to 904.

    Attributes:
        lease: of the master, from when the heartbeat was sent (C1); ``None``: this
            controller gives no leases.
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
    The calls of a broker. Each ends in bounded time, and none raises for what a
    network or a controller does: that is what `CallRefused` and `CallUnanswered` say.

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
        Say where the broker is, and hear who is master.
        """
        ...

    async def elect_master(
        self, request: ElectMaster
    ) -> MasterInfo | CallRefused | CallUnanswered:
        """
        Ask for a master.
        """
        ...

    async def get_replica_info(
        self, request: GetReplicaInfo
    ) -> MasterInfo | CallRefused | CallUnanswered:
        """
        Ask who is master.
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
