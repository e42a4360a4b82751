"""
Encodes a broker's calls as remoting commands, and decodes their answers. Pure.

RocketMQ's fields are those of a Java broker; Java controllers ignore pystore's
extensions (`pystore.controller.protocol.extensions`). An answer that leaves the outcome
open is not a refusal: a Java controller answers 1 or 2015 when it could not commit in
time, and may still commit.

Source: formats 4.1 to 4.9, 4.13; golden ``remoting``; RMQ-R28.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

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
from pystore.controller.protocol.extensions import (
    ha_address_fields,
    handed_over_fields,
    heartbeat_extension_fields,
    lease_of,
    recovery_fields,
    standing_of,
)
from pystore.controller.protocol.set_extensions import (
    agreed_of,
    alter_set_fields,
    leadership_of,
    learners_of,
    links_of,
    refused_ids_of,
)
from pystore.errors import RemoteViolation
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.controller_bodies import ElectMasterBody, SyncStateSet
from pystore.remoting.controller_headers import (
    AlterSyncStateSetRequest,
    ApplyBrokerIdRequest,
    BrokerHeartbeat,
    ElectMasterRequest,
    ElectMasterResponse,
    GetMetadataResponse,
    GetNextBrokerIdRequest,
    GetNextBrokerIdResponse,
    GetReplicaInfoRequest,
    GetReplicaInfoResponse,
    NotifyRoleChanged,
    RegisterBrokerToControllerRequest,
    RegisterBrokerToControllerResponse,
)
from pystore.remoting.fields import decode_fields, encode_fields
from pystore.replicaset import AgreedSet, ids_of

__all__ = ["answer_of", "command_of", "master_info_of"]

_UNSETTLED = {ResponseCode.SYSTEM_ERROR, ResponseCode.CONTROLLER_JRAFT_INTERNAL_ERROR}
_STALE = {
    ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
    ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
}


def command_of(request: Call, wall_ms: int) -> RemotingCommand:
    """
    Returns the command of a request.

    Args:
        request: any.
        wall_ms: RocketMQ's ``invokeTime``, which jRaft controllers use as the time.

    Raises:
        InvalidError: a number is outside the range of RocketMQ's field.
    """
    form = _FORMS[type(request)]
    body = b""
    if isinstance(request, AlterSyncStateSet):
        change = request.change
        body = SyncStateSet(ids_of(change.members), change.set_epoch).encode()
    return RemotingCommand(
        form.code, ext_fields=form.fields(request, wall_ms), body=body
    )


def _next_id(request: GetNextBrokerId, _: int) -> dict[str, str]:
    return encode_fields(GetNextBrokerIdRequest(request.cluster, request.broker))


def _apply(request: ApplyBrokerId, _: int) -> dict[str, str]:
    return encode_fields(
        ApplyBrokerIdRequest(
            request.cluster,
            request.broker,
            request.broker_id,
            request.register_check_code,
        )
    )


def _register(request: RegisterBroker, wall_ms: int) -> dict[str, str]:
    header = RegisterBrokerToControllerRequest(
        request.cluster, request.broker, request.broker_id, request.address, wall_ms
    )
    told = request.recovery
    fields = encode_fields(header) | ha_address_fields(request.ha_address)
    return fields | ({} if told is None else recovery_fields(told))


def _elect(request: ElectMaster, wall_ms: int) -> dict[str, str]:
    return handed_over_fields(request.handed_over) | encode_fields(
        ElectMasterRequest(
            request.cluster,
            request.broker,
            request.broker_id,
            request.is_designated,
            wall_ms,
        )
    )


def _info(request: GetReplicaInfo, _: int) -> dict[str, str]:
    return encode_fields(GetReplicaInfoRequest(request.broker))


def _alter(request: AlterSyncStateSet, wall_ms: int) -> dict[str, str]:
    change = request.change
    header = AlterSyncStateSetRequest(
        request.broker, change.master.broker_id, change.epoch, wall_ms
    )
    return encode_fields(header) | alter_set_fields(change)


def _beat(request: SendHeartbeat, _: int) -> dict[str, str]:
    header = BrokerHeartbeat(
        request.broker_id,
        request.cluster,
        request.address,
        request.broker,
        request.epoch,
        request.max_offset,
        request.confirm_offset,
        request.timeout_ms,
        request.priority,
    )
    told = request.extension
    return encode_fields(header) | (
        {} if told is None else heartbeat_extension_fields(told)
    )


# -- answers -----------------------------------------------------------------


def answer_of(request: Call, response: RemotingCommand) -> Answer:
    """
    Returns the result of a request. Total: an invalid answer is `CallUnanswered`.
    """
    try:
        return _answer(request, response)
    except RemoteViolation as violation:
        # Whether the request was done cannot be read from it.
        code = _FORMS[type(request)].code
        return CallUnanswered(
            f"the answer to request code {int(code)} is invalid: {violation}"
        )


def _answer(request: Call, response: RemotingCommand) -> Answer:
    if response.code in _UNSETTLED:
        return CallUnanswered(_line(response))
    is_standing = response.code == ResponseCode.CONTROLLER_MASTER_STILL_EXIST
    if is_standing and isinstance(request, ElectMaster):
        return _elected(response)
    if response.code != ResponseCode.SUCCESS:
        return _refused(request, response)
    return _FORMS[type(request)].answer(response)


def _refused(request: Call, response: RemotingCommand) -> CallRefused:
    is_told = isinstance(request, AlterSyncStateSet) and response.code in _STALE
    return CallRefused(
        response.code,
        response.remark or "",
        refused_ids_of(response.ext_fields),
        _agreed(response) if is_told and response.body else None,
    )


def _metadata(response: RemotingCommand) -> Metadata:
    header = decode_fields(GetMetadataResponse, response.ext_fields)
    return Metadata(
        header.is_leader,
        header.controller_leader_address or "",
        header.controller_leader_id or "",
        header.group or "",
        header.peers or "",
    )


def _told_id(response: RemotingCommand) -> NextBrokerId:
    told = decode_fields(GetNextBrokerIdResponse, response.ext_fields).next_broker_id
    if told is None:
        raise RemoteViolation("no nextBrokerId")
    return NextBrokerId(told)


def _done(_: RemotingCommand) -> Done:
    return Done()


def _registered(response: RemotingCommand) -> MasterInfo:
    header = decode_fields(RegisterBrokerToControllerResponse, response.ext_fields)
    told = _mastership(response, header, _agreed(response))
    return replace(told, standing=standing_of(response.ext_fields))


def _elected(response: RemotingCommand) -> MasterInfo:
    header = decode_fields(ElectMasterResponse, response.ext_fields)
    if header.master_broker_id is None or header.sync_state_set_epoch is None:
        raise RemoteViolation("no masterBrokerId or no syncStateSetEpoch")
    broker_ids = ElectMasterBody.decode(response.body).sync_state_set
    agreed = agreed_of(response.ext_fields, broker_ids, header.sync_state_set_epoch)
    told = _mastership(response, header, agreed)
    return replace(told, is_new=response.code == ResponseCode.SUCCESS)


def _replica_info(response: RemotingCommand) -> MasterInfo:
    header = decode_fields(GetReplicaInfoResponse, response.ext_fields)
    return _mastership(response, header, _agreed(response))


def _beaten(response: RemotingCommand) -> HeartbeatAnswer:
    return HeartbeatAnswer(lease_of(response.ext_fields))


def master_info_of(notification: RemotingCommand) -> MasterInfo:
    """
    Decodes 1008.

    Raises:
        RemoteViolation: the notification is invalid.
    """
    header = decode_fields(NotifyRoleChanged, notification.ext_fields)
    return _mastership(notification, header, _agreed(notification))


_MasterHeader = (
    RegisterBrokerToControllerResponse
    | ElectMasterResponse
    | GetReplicaInfoResponse
    | NotifyRoleChanged
)


def _mastership(
    command: RemotingCommand, header: _MasterHeader, agreed: AgreedSet
) -> MasterInfo:
    epoch = header.master_epoch or 0
    links = links_of(command.ext_fields)
    learners = learners_of(command.ext_fields)
    if header.master_broker_id is None:
        return MasterInfo(None, "", epoch, agreed, links=links, learners=learners)
    address = header.master_address or ""
    told = leadership_of(command.ext_fields, header.master_broker_id, address, epoch)
    return MasterInfo(
        told.master,
        address,
        epoch,
        agreed,
        waits_for_lease=told.waits_for_lease,
        ha_address=told.ha_address,
        links=links,
        learners=learners,
    )


def _agreed(command: RemotingCommand) -> AgreedSet:
    body = SyncStateSet.decode(command.body)
    return agreed_of(command.ext_fields, body.broker_ids, body.epoch)


def _line(response: RemotingCommand) -> str:
    remark = " ".join((response.remark or "").split())[:200]
    return f"the controller answered with code {response.code}: {remark}".rstrip(": ")


class _Form(NamedTuple):
    code: RequestCode
    # Each takes its own type of request, which the type of the table cannot express.
    fields: Callable[[Any, int], dict[str, str]]
    answer: Callable[[RemotingCommand], Answer]


_FORMS: dict[type[Call], _Form] = {
    GetMetadata: _Form(
        RequestCode.CONTROLLER_GET_METADATA_INFO, lambda *_: {}, _metadata
    ),
    GetNextBrokerId: _Form(
        RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, _next_id, _told_id
    ),
    ApplyBrokerId: _Form(RequestCode.CONTROLLER_APPLY_BROKER_ID, _apply, _done),
    RegisterBroker: _Form(
        RequestCode.CONTROLLER_REGISTER_BROKER, _register, _registered
    ),
    ElectMaster: _Form(RequestCode.CONTROLLER_ELECT_MASTER, _elect, _elected),
    GetReplicaInfo: _Form(
        RequestCode.CONTROLLER_GET_REPLICA_INFO, _info, _replica_info
    ),
    AlterSyncStateSet: _Form(
        RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, _alter, _agreed
    ),
    SendHeartbeat: _Form(RequestCode.BROKER_HEARTBEAT, _beat, _beaten),
}
