"""
What is asked of the controllers, and of a master, about the members of a set.

The controllers' record is the truth about members: what depends on a description of the
set names the version that it had, and is refused if the record has another one (D2 of
AutoRecovery; docs/controller.md).

Source: RMQ-R250 to RMQ-R256; C3; docs/controller.md, *Commands*.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystore.controller.client.client import ControllerClient
from pystore.controller.protocol.cluster_id import (
    cluster_id_fields,
    cluster_id_of,
    refusal_of,
)
from pystore.controller.protocol.set_extensions import seen_version_fields
from pystore.errors import PystoreError, UnavailableError
from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.controller_headers import CleanBrokerDataRequest
from pystore.remoting.fields import decode_fields, encode_fields
from pystore.remoting.operator_headers import (
    ChangeBrokerRequest,
    HandOverRequest,
    HandOverResponse,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["SetOrderRefused", "change_learner", "clean_broker", "hand_mastership_over"]

_HAND_OVER_MS = 15_000  # the master waits for its successor, and then for the election


class SetOrderRefused(PystoreError):
    """
    The controller or the master refused, and nothing was changed.
    """


async def clean_broker(
    client: ControllerClient, cluster: str, name: str, broker_id: int, version: int
) -> bool:
    """
    Removes a broker that is not alive from its set (1011). One that the set does not
    have is fine.

    Args:
        client: to the controllers; of its loop.
        cluster: of the set.
        name: of the set.
        broker_id: of the broker.
        version: of the set as it was described.

    Returns:
        Whether it was done; if not, the set has another version: read it again.

    Raises:
        SetOrderRefused: the broker is alive, or all acknowledged records would go.
        UnavailableError: no controller answers; it may be done or not.
    """
    header = CleanBrokerDataRequest(name, cluster, str(broker_id))
    return await _ask(client, RequestCode.CLEAN_BROKER_DATA, header, version)


async def change_learner(
    client: ControllerClient,
    cluster: str,
    name: str,
    broker_id: int,
    version: int,
    *,
    is_learner: bool,
) -> bool:
    """
    Makes a broker a learner, or a voter again (7102).

    Args:
        client: to the controllers; of its loop.
        cluster: of the set.
        name: of the set.
        broker_id: of the broker.
        version: of the set as it was described.
        is_learner: what it is to be.

    Returns:
        Whether it was done; as of `clean_broker`.

    Raises:
        SetOrderRefused: the set has no such broker, or cannot do without it.
        UnavailableError: as of `clean_broker`.
    """
    header = ChangeBrokerRequest(name, broker_id, cluster, is_learner)
    return await _ask(client, RequestCode.CHANGE_BROKER, header, version)


async def hand_mastership_over(
    client: RemotingClient, master: str, broker_id: int
) -> int:
    """
    Asks a master to hand its mastership over to a member that is in sync, without a
    lost record (7201).

    Args:
        client: of its loop.
        master: ``HOST:PORT`` of the master.
        broker_id: of its successor.

    Returns:
        The epoch of the next mastership.

    Raises:
        SetOrderRefused: it is no master, or its successor does not catch up.
        UnavailableError: it does not answer: it may be done or not.
    """
    request = RemotingCommand(
        RequestCode.HAND_OVER, ext_fields=encode_fields(HandOverRequest(broker_id))
    )
    answer = await client.call(master, request, _HAND_OVER_MS)
    if answer.code != ResponseCode.SUCCESS:
        raise SetOrderRefused(f"{master} {_refusal(RequestCode.HAND_OVER, answer)}")
    return decode_fields(HandOverResponse, answer.ext_fields).master_epoch


async def _ask(
    client: ControllerClient, code: RequestCode, header: DataclassInstance, version: int
) -> bool:
    own = client.cluster_id
    fields = {
        **encode_fields(header),
        **seen_version_fields(version),
        **cluster_id_fields(own),
    }
    answer = await client.call_leader(RemotingCommand(code, ext_fields=fields))
    stranger = refusal_of(own, cluster_id_of(answer.ext_fields))
    if stranger:
        raise UnavailableError(stranger)
    match answer.code:
        case ResponseCode.SUCCESS:
            return True
        case ResponseCode.SET_CHANGED:
            return False
        case ResponseCode.CONTROLLER_NOT_LEADER:
            raise UnavailableError(f"the controller {_refusal(code, answer)}")
    raise SetOrderRefused(f"the controller {_refusal(code, answer)}")


def _refusal(code: RequestCode, answer: RemotingCommand) -> str:
    remark = " ".join((answer.remark or "").split())[:200]
    return f"refuses {code}, {answer.code}: {remark}"
