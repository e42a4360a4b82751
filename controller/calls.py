"""
What a broker asks a controller, and what it may hear. Pure: values, no bytes.

A request is a value, and so is each of its three ends: an answer, a refusal with
RocketMQ's code, or nothing that could be understood in time. The last one means that
nobody knows whether it was done, which is another thing than a refusal (R28).

The fields are those of RocketMQ's headers under the names of this project; `Process`
holds what pystore adds, and what RocketMQ's controllers pass over. Who carries the
calls out finds the leader (`pystore.controller.discovery`), and fills in
``invokeTime``.

Source: formats 4.2 to 4.8, 4.13.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pystore.remoting.codes import HEARTBEAT_TIMEOUT_MS, LOWEST_PRIORITY
from pystore.truth import Incarnation

__all__ = [
    "AlterSyncStateSet",
    "Answer",
    "ApplyBrokerId",
    "ControllerCalls",
    "Done",
    "ElectMaster",
    "GetNextBrokerId",
    "GetReplicaInfo",
    "Heartbeat",
    "HeartbeatAnswer",
    "Mastership",
    "Metadata",
    "NextBrokerId",
    "Process",
    "Refused",
    "RegisterBroker",
    "SyncStateSet",
    "Unanswered",
]


@dataclass(frozen=True, slots=True)
class Process:
    """
    What a broker of pystore tells of its process, and a Java broker does not.

    Attributes:
        incarnation: of the store: this start of this broker (B1).
        boot_id: of the machine.
        last_epoch: of the last bytes of its log; -1: it has none.
        end_offset: where its log ends, in bytes.
    """

    incarnation: Incarnation
    boot_id: str
    last_epoch: int = -1
    end_offset: int = 0


# -- the ends of a call ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Refused:
    """
    The controller answered, and did not do it.

    Attributes:
        code: RocketMQ's response code, not 0.
        remark: what it wrote for people; may be empty.
    """

    code: int
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """
    No answer came in time, or none that could be read: it may have been done.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Done:
    """
    The controller did it, and says nothing more.
    """


# -- requests and what answers them ------------------------------------------


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
class NextBrokerId:
    """
    The answer to 1012; nothing was given to anybody.
    """

    broker_id: int


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
    1003: a broker is there, at this address. `Mastership` answers it.
    """

    cluster: str
    broker: str
    broker_id: int
    address: str
    process: Process | None = None


@dataclass(frozen=True, slots=True)
class SyncStateSet:
    """
    Who holds everything that is confirmed, and the version of that list.
    """

    broker_ids: frozenset[int] = frozenset()
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Mastership:
    """
    Who is master of a set: the answer to 1002, 1003 and 1004, the body of 1008.

    Attributes:
        master_id: ``None``: nobody, or nobody that is alive.
        master_address: ``HOST:PORT``; empty: not told.
        master_epoch: of the mastership.
        agreed: the SyncStateSet.
        is_new: of 1002: whether this request decided it; else it stood already
            (2011).
    """

    master_id: int | None = None
    master_address: str = ""
    master_epoch: int = 0
    agreed: SyncStateSet = SyncStateSet()
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class ElectMaster:
    """
    1002: a set needs a master. `Mastership` answers it.

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
    1004: who is master of a set. `Mastership` answers it.
    """

    broker: str


@dataclass(frozen=True, slots=True)
class AlterSyncStateSet:
    """
    1001: the master wants another SyncStateSet. `SyncStateSet` answers it.

    Attributes:
        wanted: the members it wants, and the version that it knows.
    """

    broker: str
    master_id: int
    master_epoch: int
    wanted: SyncStateSet


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """
    904: a broker is alive. Goes to every controller; `HeartbeatAnswer` answers it.

    Attributes:
        epoch: the last one of its log; -1: none.
        max_offset: where its log ends, in bytes.
        confirm_offset: in bytes.
        timeout_ms: how long it counts as alive.
        priority: of an election among equals; the lower is preferred.
        process: with ``flushed_offset`` and ``disk_problem`` what pystore adds.
        flushed_offset: the end of what is on its disk, in bytes.
        disk_problem: why its disk is ill; empty: it is not.
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
    process: Process | None = None
    flushed_offset: int = -1
    disk_problem: str = ""


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """
    The answer to 904.

    Attributes:
        lease_ms: how long the master may decide alone, from when the heartbeat was
            sent (C1); ``None``: this controller gives no leases.
    """

    lease_ms: int | None = None


Answer = (
    NextBrokerId
    | Done
    | Mastership
    | SyncStateSet
    | Metadata
    | HeartbeatAnswer
    | Refused
    | Unanswered
)


class ControllerCalls(Protocol):
    """
    The calls of a broker. Each ends in bounded time, and none raises for what a
    network or a controller does: that is what `Refused` and `Unanswered` say.

    All but the first and the last go to the leader.
    """

    async def get_metadata(self, address: str) -> Metadata | Refused | Unanswered:
        """
        Ask one controller for its leader.
        """
        ...

    async def get_next_broker_id(
        self, request: GetNextBrokerId
    ) -> NextBrokerId | Refused | Unanswered:
        """
        Ask for an id to apply for.
        """
        ...

    async def apply_broker_id(
        self, request: ApplyBrokerId
    ) -> Done | Refused | Unanswered:
        """
        Apply for an id.
        """
        ...

    async def register_broker(
        self, request: RegisterBroker
    ) -> Mastership | Refused | Unanswered:
        """
        Say where the broker is, and hear who is master.
        """
        ...

    async def elect_master(
        self, request: ElectMaster
    ) -> Mastership | Refused | Unanswered:
        """
        Ask for a master.
        """
        ...

    async def get_replica_info(
        self, request: GetReplicaInfo
    ) -> Mastership | Refused | Unanswered:
        """
        Ask who is master.
        """
        ...

    async def alter_sync_state_set(
        self, request: AlterSyncStateSet
    ) -> SyncStateSet | Refused | Unanswered:
        """
        Propose another SyncStateSet.
        """
        ...

    async def heartbeat(
        self, address: str, request: Heartbeat
    ) -> HeartbeatAnswer | Refused | Unanswered:
        """
        Tell one controller that the broker is alive.
        """
        ...
