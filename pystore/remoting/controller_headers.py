"""
The headers of requests to a controller, and of its answers. Pure.

Names and types are RocketMQ's. Fields with a default may be missing. A refusal has a
code and may have no fields.

Source: formats 4.2 to 4.13; docs/remoting.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pystore.remoting.codes import HEARTBEAT_TIMEOUT_MS, LOWEST_PRIORITY, ResponseCode
from pystore.remoting.fields import Int32, Int64

__all__ = [
    "AlterSyncStateSetRequest",
    "AlterSyncStateSetResponse",
    "ApplyBrokerIdRequest",
    "ApplyBrokerIdResponse",
    "BrokerHeartbeat",
    "CleanBrokerDataRequest",
    "ElectMasterRequest",
    "ElectMasterResponse",
    "GetMetadataResponse",
    "GetNextBrokerIdRequest",
    "GetNextBrokerIdResponse",
    "GetReplicaInfoRequest",
    "GetReplicaInfoResponse",
    "NotifyRoleChanged",
    "RegisterBrokerToControllerRequest",
    "RegisterBrokerToControllerResponse",
]


@dataclass(frozen=True, slots=True)
class AlterSyncStateSetRequest:
    """
    1001: a master proposes a SyncStateSet; the set itself is the body.

    Attributes:
        broker_name: of the set of brokers.
        master_broker_id: the requester.
        master_epoch: of its mastership.
        invoke_time: the requester's clock in ms, which is ignored here (RMQ-R234).
    """

    broker_name: str
    master_broker_id: Int64
    master_epoch: Int32
    invoke_time: Int64 | None = None


@dataclass(frozen=True, slots=True)
class AlterSyncStateSetResponse:
    """
    1001: the new SyncStateSet epoch; 0 with a refusal.
    """

    new_sync_state_set_epoch: Int32 = 0


@dataclass(frozen=True, slots=True)
class ElectMasterRequest:
    """
    1002: requests an election.

    Attributes:
        cluster_name: may be empty.
        broker_name: of the set of brokers.
        broker_id: the requester or the designated master; -1: the controller itself.
        designate_elect: an administrator designates ``broker_id``.
        invoke_time: as in `AlterSyncStateSetRequest`.
    """

    cluster_name: str = ""
    broker_name: str = ""
    broker_id: Int64 = -1
    designate_elect: bool = False
    invoke_time: Int64 | None = None


@dataclass(frozen=True, slots=True)
class ElectMasterResponse:
    """
    1002: the master, with success and with 2011.
    """

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


@dataclass(frozen=True, slots=True)
class RegisterBrokerToControllerRequest:
    """
    1003: registers a broker that has its id, with its address.
    """

    cluster_name: str
    broker_name: str
    broker_id: Int64
    broker_address: str
    invoke_time: Int64 = 0


@dataclass(frozen=True, slots=True)
class RegisterBrokerToControllerResponse:
    """
    1003: the master, if one is recorded and alive; the SyncStateSet is the body.
    """

    cluster_name: str | None = None
    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


@dataclass(frozen=True, slots=True)
class GetReplicaInfoRequest:
    """
    1004: asks for the master of a set.
    """

    broker_name: str


@dataclass(frozen=True, slots=True)
class GetReplicaInfoResponse:
    """
    1004: the master, if there is one; the SyncStateSet is the body.
    """

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None


@dataclass(frozen=True, slots=True)
class GetMetadataResponse:
    """
    1005: the leading controller, if this one knows it.

    Attributes:
        group: of the controllers.
        controller_leader_id: its name.
        controller_leader_address: its address.
        is_leader: whether the answering controller leads.
        peers: ``id:host:port;`` for each.
    """

    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = False
    peers: str | None = None


@dataclass(frozen=True, slots=True)
class BrokerHeartbeat:
    """
    904: the heartbeat of a broker; one-way. Only the names are set for a name server.

    Attributes:
        cluster_name: of the broker.
        broker_addr: where clients reach it.
        broker_name: of its set.
        broker_id: its durable number.
        epoch: the last one of its log.
        max_offset: the end of its log.
        confirm_offset: of its log.
        heartbeat_timeout_mills: how long this heartbeat is valid.
        election_priority: the lowest number is preferred.
    """

    missing_code: ClassVar[ResponseCode] = ResponseCode.CONTROLLER_INVALID_REQUEST

    broker_id: Int64
    cluster_name: str | None = None
    broker_addr: str | None = None
    broker_name: str | None = None
    epoch: Int32 = -1
    max_offset: Int64 = -1
    confirm_offset: Int64 = -1
    heartbeat_timeout_mills: Int64 = HEARTBEAT_TIMEOUT_MS
    election_priority: Int32 = LOWEST_PRIORITY


@dataclass(frozen=True, slots=True)
class NotifyRoleChanged:
    """
    1008, controller to broker, one-way: the new master; the SyncStateSet is the body.
    """

    master_address: str | None = None
    master_broker_id: Int64 | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


@dataclass(frozen=True, slots=True)
class CleanBrokerDataRequest:
    """
    1011: removes brokers.

    Attributes:
        broker_name: of the set.
        cluster_name: of the set.
        broker_controller_ids_to_clean: ids with ``;`` between them; none: all.
        is_clean_living_broker: also live brokers.
        invoke_time: as in `AlterSyncStateSetRequest`.
    """

    broker_name: str
    cluster_name: str | None = None
    broker_controller_ids_to_clean: str | None = None
    is_clean_living_broker: bool = False
    invoke_time: Int64 | None = None


@dataclass(frozen=True, slots=True)
class GetNextBrokerIdRequest:
    """
    1012: asks for the next broker id.
    """

    cluster_name: str
    broker_name: str


@dataclass(frozen=True, slots=True)
class GetNextBrokerIdResponse:
    """
    1012: the next broker id.
    """

    cluster_name: str | None = None
    broker_name: str | None = None
    next_broker_id: Int64 | None = None


@dataclass(frozen=True, slots=True)
class ApplyBrokerIdRequest:
    """
    1013: applies for an id.

    Attributes:
        cluster_name: of the broker.
        broker_name: of its set.
        applied_broker_id: from 1012.
        register_check_code: tells a repeated request from that of another broker.
    """

    cluster_name: str
    broker_name: str
    applied_broker_id: Int64
    register_check_code: str


@dataclass(frozen=True, slots=True)
class ApplyBrokerIdResponse:
    """
    1013: the id is allocated.
    """

    cluster_name: str | None = None
    broker_name: str | None = None
