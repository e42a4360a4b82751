"""
Decodes requests of brokers and administrators to commands for one set. Pure.

Some requests of RocketMQ name a set without its cluster; the handler finds the set
(RMQ-R37).

Source: formats 4.2 to 4.4, 4.12, 4.13; RMQ-R51 to RMQ-R53, RMQ-R251, RMQ-R252.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pystore.controller.model.commands import (
    ApplyId,
    ChangeBroker,
    ChangePolicy,
    Clean,
    Command,
    DeleteSet,
    Elect,
    GetNextId,
    Readmit,
    Register,
    SetCopies,
    Trigger,
)
from pystore.controller.protocol.extensions import (
    ha_address_of,
    handed_over_of,
    recovery_of,
)
from pystore.controller.protocol.set_extensions import alter_set_of, seen_version_of
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.controller_bodies import SyncStateSet
from pystore.remoting.controller_headers import (
    AlterSyncStateSetRequest,
    ApplyBrokerIdRequest,
    CleanBrokerDataRequest,
    ElectMasterRequest,
    GetNextBrokerIdRequest,
    RegisterBrokerToControllerRequest,
)
from pystore.remoting.fields import MissingField, decode_fields
from pystore.remoting.operator_headers import (
    ChangeBrokerRequest,
    ChangeElectionsRequest,
    DeleteBrokerSetRequest,
    ReadmitBrokerRequest,
    SetCopiesRequest,
)

__all__ = ["COMMANDS", "SetCommand"]

_IDS = re.compile(r"[0-9; ]*")
_NO_ID = -1


@dataclass(frozen=True, slots=True)
class SetCommand:
    """
    A command and the set that it is for.

    Attributes:
        cluster: of the set; empty: unknown.
        name: of the set.
        command: for the set.
        creates: whether it creates a set that does not exist; then the cluster counts.
    """

    cluster: str
    name: str
    command: Command
    creates: bool = False


def _alter_set(request: RemotingCommand) -> SetCommand:
    header = decode_fields(AlterSyncStateSetRequest, request.ext_fields)
    body = SyncStateSet.decode(request.body)
    command = alter_set_of(
        request.ext_fields,
        header.master_broker_id,
        header.master_epoch,
        body.broker_ids,
        body.epoch,
    )
    return SetCommand("", header.broker_name, command)


def _elect(request: RemotingCommand) -> SetCommand:
    header = decode_fields(ElectMasterRequest, request.ext_fields)
    if header.broker_id == _NO_ID:
        command = Elect(Trigger.CONTROLLER)
    elif header.designate_elect:
        handed_over = handed_over_of(request.ext_fields)
        command = Elect(Trigger.OPERATOR, header.broker_id, handed_over=handed_over)
    else:
        command = Elect(Trigger.BROKER, header.broker_id)
    return SetCommand(header.cluster_name, header.broker_name, command)


def _register(request: RemotingCommand) -> SetCommand:
    if "brokerId" not in request.ext_fields:
        raise MissingField(
            "the broker registers without a broker id: RocketMQ's brokers have one "
            "since 5.1.1: upgrade it",
            ResponseCode.SYSTEM_ERROR,
        )
    header = decode_fields(RegisterBrokerToControllerRequest, request.ext_fields)
    command = Register(
        header.broker_id,
        header.broker_address,
        recovery_of(request.ext_fields),
        ha_address_of(request.ext_fields),
    )
    return SetCommand(header.cluster_name, header.broker_name, command, creates=True)


def _next_id(request: RemotingCommand) -> SetCommand:
    header = decode_fields(GetNextBrokerIdRequest, request.ext_fields)
    return SetCommand(
        header.cluster_name, header.broker_name, GetNextId(), creates=True
    )


def _apply_id(request: RemotingCommand) -> SetCommand:
    header = decode_fields(ApplyBrokerIdRequest, request.ext_fields)
    command = ApplyId(header.applied_broker_id, header.register_check_code)
    return SetCommand(header.cluster_name, header.broker_name, command, creates=True)


def _clean(request: RemotingCommand) -> SetCommand:
    header = decode_fields(CleanBrokerDataRequest, request.ext_fields)
    text = header.broker_controller_ids_to_clean or ""
    if not _IDS.fullmatch(text):
        raise MissingField(
            f"broker ids to clean are numbers with ; between them, not {text[:64]!r}",
            ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA,
        )
    ids = frozenset(int(one) for one in text.split(";") if one.strip())
    if header.broker_controller_ids_to_clean is not None and not ids:
        raise MissingField(
            f"the list of broker ids to clean, {text[:64]!r}, names no broker: name "
            "some, or leave the list out to clean the whole set",
            ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA,
        )
    seen = seen_version_of(request.ext_fields)
    command = Clean(ids, header.is_clean_living_broker, seen)
    return SetCommand(header.cluster_name or "", header.broker_name, command)


def _change_broker(request: RemotingCommand) -> SetCommand:
    header = decode_fields(ChangeBrokerRequest, request.ext_fields)
    seen = seen_version_of(request.ext_fields)
    command = ChangeBroker(header.broker_id, header.is_learner, header.priority, seen)
    return SetCommand(header.cluster_name, header.broker_name, command)


def _change_elections(request: RemotingCommand) -> SetCommand:
    header = decode_fields(ChangeElectionsRequest, request.ext_fields)
    command = ChangePolicy(header.preferred_broker_id, header.allow_elect_master)
    return SetCommand(header.cluster_name, header.broker_name, command)


def _set_copies(request: RemotingCommand) -> SetCommand:
    header = decode_fields(SetCopiesRequest, request.ext_fields)
    command = SetCopies(header.copies)
    return SetCommand(header.cluster_name, header.broker_name, command)


def _readmit(request: RemotingCommand) -> SetCommand:
    header = decode_fields(ReadmitBrokerRequest, request.ext_fields)
    return SetCommand(
        header.cluster_name, header.broker_name, Readmit(header.broker_id)
    )


def _delete_set(request: RemotingCommand) -> SetCommand:
    header = decode_fields(DeleteBrokerSetRequest, request.ext_fields)
    if not header.cluster_name:
        raise MissingField(
            f"name the cluster of broker set {header.broker_name}: another cluster may "
            "have a set of that name",
            ResponseCode.CONTROLLER_INVALID_REQUEST,
        )
    return SetCommand(header.cluster_name, header.broker_name, DeleteSet())


COMMANDS: Mapping[RequestCode, Callable[[RemotingCommand], SetCommand]] = {
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: _alter_set,
    RequestCode.CONTROLLER_ELECT_MASTER: _elect,
    RequestCode.CONTROLLER_REGISTER_BROKER: _register,
    RequestCode.CONTROLLER_GET_NEXT_BROKER_ID: _next_id,
    RequestCode.CONTROLLER_APPLY_BROKER_ID: _apply_id,
    RequestCode.CLEAN_BROKER_DATA: _clean,
    RequestCode.CHANGE_BROKER: _change_broker,
    RequestCode.CHANGE_ELECTIONS: _change_elections,
    RequestCode.SET_COPIES: _set_copies,
    RequestCode.READMIT_BROKER: _readmit,
    RequestCode.DELETE_BROKER_SET: _delete_set,
}
"""
The decoder for each request code. It raises a `MissingField` or a `RemoteViolation` for
a malformed request.
"""
