"""
Encodes the result of a command as RocketMQ's answer to its request. Pure.

Source: formats 4.1 to 4.7, 4.12, 4.13; RMQ-R39, RMQ-R40, RMQ-R57, RMQ-R111, RMQ-R269.
"""

from __future__ import annotations

from collections.abc import Iterable

from pystore.controller.model.commands import (
    AlterSet,
    ApplyId,
    Command,
    GetNextId,
    Register,
)
from pystore.controller.model.decision import Accepted, CommandResult
from pystore.controller.model.facts import Facts
from pystore.controller.model.replies import (
    BrokerView,
    Election,
    MasterRecord,
    NewSet,
    NextBrokerId,
    RegistrationReply,
    SyncState,
)
from pystore.controller.model.state import SetState
from pystore.controller.model.views import replica_info, sync_state
from pystore.controller.protocol.extensions import standing_fields
from pystore.controller.protocol.set_extensions import (
    agreed_fields,
    leadership_fields,
    learners_fields,
    refused_ids_fields,
)
from pystore.remoting.codes import ResponseCode
from pystore.remoting.controller_bodies import (
    BrokerMemberGroup,
    ElectMasterBody,
    SyncStateSet,
)
from pystore.remoting.controller_headers import (
    AlterSyncStateSetResponse,
    ApplyBrokerIdResponse,
    ElectMasterResponse,
    GetNextBrokerIdResponse,
    GetReplicaInfoResponse,
    NotifyRoleChanged,
    RegisterBrokerToControllerResponse,
)
from pystore.remoting.fields import encode_fields
from pystore.remoting.replica_bodies import (
    BrokerReplicas,
    ReplicaIdentity,
    encode_replicas,
)
from pystore.remoting.reply import Reply
from pystore.replicaset import AgreedSet, ids_of

__all__ = ["answer", "encode_notification", "replica_info_answer", "sync_state_answer"]

_FENCED = (
    ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
    ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
)


def answer(command: Command, decision: CommandResult, state: SetState) -> Reply:
    """
    Returns the answer to a command.

    Args:
        command: of the request.
        decision: its result.
        state: of the set after it.
    """
    names = _names(command, state)
    if not isinstance(decision, Accepted):
        fields = names | refused_ids_fields(decision.broker_ids)
        body = b""
        if isinstance(command, AlterSet):
            fields |= encode_fields(AlterSyncStateSetResponse())
            if decision.code in _FENCED:
                # A master of pystore takes the present set from the refusal.
                fields |= agreed_fields(state.agreed)
                body = _set_body(state.agreed)
        return Reply(decision.code, decision.reason, fields, body)
    reply = decision.reply
    match reply:
        case NextBrokerId():
            told = GetNextBrokerIdResponse(next_broker_id=reply.broker_id)
            return Reply(ext_fields=names | encode_fields(told))
        case RegistrationReply():
            fields = names | standing_fields(reply.standing)
            fields |= learners_fields(state.learners)
            return _with_set(reply.leadership, reply.agreed, fields)
        case NewSet():
            set_epoch = AlterSyncStateSetResponse(reply.agreed.set_epoch)
            fields = encode_fields(set_epoch) | agreed_fields(reply.agreed)
            return Reply(ext_fields=fields, body=_set_body(reply.agreed))
        case Election():
            return _election(reply, state)
        case _:
            return Reply(ext_fields=names)


def replica_info_answer(state: SetState) -> Reply:
    """
    Returns the answer to 1004.
    """
    if not state.is_known:
        return Reply(
            ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST,
            f"broker set {state.name} does not exist",
        )
    info = replica_info(state)
    fields = encode_fields(GetReplicaInfoResponse(master_epoch=info.epoch))
    if info.leadership is not None:
        told = GetReplicaInfoResponse(
            info.leadership.master.broker_id, info.leadership.address, info.epoch
        )
        fields = encode_fields(told) | leadership_fields(info.leadership)
    fields |= agreed_fields(info.agreed) | learners_fields(state.learners)
    return Reply(ext_fields=fields, body=_set_body(info.agreed))


def sync_state_answer(sets: Iterable[tuple[SetState, Facts]]) -> Reply:
    """
    Returns the answer to 1006.

    Args:
        sets: the requested ones that exist.
    """
    table = {
        state.name: _replicas(state.name, sync_state(state, facts))
        for state, facts in sets
    }
    return Reply(body=encode_replicas(table))


def encode_notification(
    leadership: MasterRecord, agreed: AgreedSet, learners: frozenset[int]
) -> tuple[dict[str, str], bytes]:
    """
    Returns fields and body of 1008.

    Args:
        leadership: the master.
        agreed: the SyncStateSet.
        learners: the ids of the learners of the set.
    """
    told = NotifyRoleChanged(
        leadership.address,
        leadership.master.broker_id,
        leadership.epoch,
        agreed.set_epoch,
    )
    fields = encode_fields(told) | leadership_fields(leadership)
    fields |= agreed_fields(agreed) | learners_fields(learners)
    return fields, _set_body(agreed)


def _names(command: Command, state: SetState) -> dict[str, str]:
    """
    Returns the names of the set, where RocketMQ repeats them.
    """
    if isinstance(command, (GetNextId, ApplyId, Register)):
        return encode_fields(ApplyBrokerIdResponse(state.cluster, state.name))
    return {}


def _with_set(
    leadership: MasterRecord | None, agreed: AgreedSet, fields: dict[str, str]
) -> Reply:
    fields = fields | agreed_fields(agreed)
    if leadership is not None:
        told = RegisterBrokerToControllerResponse(
            master_broker_id=leadership.master.broker_id,
            master_address=leadership.address,
            master_epoch=leadership.epoch,
            sync_state_set_epoch=agreed.set_epoch,
        )
        fields |= encode_fields(told) | leadership_fields(leadership)
    return Reply(ext_fields=fields, body=_set_body(agreed))


def _election(reply: Election, state: SetState) -> Reply:
    leadership = reply.leadership
    if leadership is None:
        return Reply(reply.code, f"no broker of set {state.name} can be elected")
    told = ElectMasterResponse(
        leadership.master.broker_id,
        leadership.address,
        leadership.epoch,
        reply.agreed.set_epoch,
    )
    fields = encode_fields(told) | leadership_fields(leadership)
    fields |= learners_fields(state.learners)
    group = remark = None
    if reply.code == ResponseCode.SUCCESS:
        group = BrokerMemberGroup(state.cluster, state.name, dict(reply.addresses))
    else:
        remark = f"broker {leadership.master.broker_id} is the master and alive"
    body = ElectMasterBody(ids_of(reply.agreed.members), group).encode()
    return Reply(reply.code, remark, fields | agreed_fields(reply.agreed), body)


def _set_body(agreed: AgreedSet) -> bytes:
    return SyncStateSet(ids_of(agreed.members), agreed.set_epoch).encode()


def _replicas(name: str, view: SyncState) -> BrokerReplicas:
    leadership = view.info.leadership
    return BrokerReplicas(
        view.info.epoch,
        view.info.agreed.set_epoch,
        _rows(name, view.in_sync),
        _rows(name, view.not_in_sync),
        leadership.master.broker_id if leadership is not None else None,
        leadership.address if leadership is not None else None,
    )


def _rows(name: str, views: Iterable[BrokerView]) -> tuple[ReplicaIdentity, ...]:
    return tuple(
        ReplicaIdentity(name, one.broker_id, one.address, one.is_alive) for one in views
    )
