"""
Decodes the heartbeat that a broker sends once a second. Pure.

Source: formats 4.8; B9, C1; RMQ-R238, RMQ-R239.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.controller.liveness.heartbeats import Heartbeat
from pystore.controller.model.limits import FIELD_CHARS, HEARTBEAT_TIMEOUT_MAX_MS
from pystore.controller.model.log_end import UNTOLD, LogEnd
from pystore.controller.model.state import SetKey
from pystore.controller.protocol.cluster_id import is_told
from pystore.controller.protocol.extensions import heartbeat_extension_of
from pystore.remoting.codes import ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.controller_headers import BrokerHeartbeat
from pystore.remoting.fields import MissingField, decode_fields

__all__ = ["BrokerBeat", "heartbeat_of"]

_ADDRESS_MAX = FIELD_CHARS["brokerAddr"]


@dataclass(frozen=True, slots=True)
class BrokerBeat:
    """
    A heartbeat and its sender.

    Attributes:
        names: of the set.
        heartbeat: for `pystore.controller.liveness.heartbeats`.
        epoch: of the last bytes of the broker's log: a master's own epoch.
        resigned_epoch: of the mastership that it resigned; -1: none.
    """

    names: SetKey
    heartbeat: Heartbeat
    epoch: int
    resigned_epoch: int = -1


def heartbeat_of(
    request: RemotingCommand, connection: int, cluster_id: str = ""
) -> BrokerBeat:
    """
    Returns the heartbeat of a request with code 904.

    Args:
        request: as received.
        connection: the number of the connection of the request.
        cluster_id: the UUID of the record store; empty: not known.

    Raises:
        MissingField: it names no broker, or a field of pystore is malformed.
    """
    header = decode_fields(BrokerHeartbeat, request.ext_fields)
    if header.broker_id < 1:
        raise MissingField(
            f"broker id {header.broker_id} is none: ids begin with 1",
            ResponseCode.CONTROLLER_INVALID_REQUEST,
        )
    extension = heartbeat_extension_of(request.ext_fields)
    heartbeat = Heartbeat(
        header.broker_id,
        connection,
        incarnation=extension.incarnation if extension else None,
        boot_id=extension.boot_id if extension else "",
        position=LogEnd(header.epoch, header.max_offset),
        flushed=extension.flushed_end if extension else -1,
        priority=header.election_priority,
        is_ill=bool(extension and extension.disk_problem),
        timeout_ms=min(header.heartbeat_timeout_mills, HEARTBEAT_TIMEOUT_MAX_MS),
        address=(header.broker_addr or "")[:_ADDRESS_MAX],
        begin=extension.begin if extension else UNTOLD,
        known_epoch=extension.known_epoch if extension else -1,
        known_set_epoch=extension.known_set_epoch if extension else -1,
        is_of_cluster=is_told(request.ext_fields, cluster_id),
    )
    return BrokerBeat(
        (header.cluster_name or "", header.broker_name or ""),
        heartbeat,
        header.epoch,
        extension.resigned_epoch if extension else -1,
    )
