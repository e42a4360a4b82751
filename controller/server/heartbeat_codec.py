"""
Decodes the heartbeat that a broker sends once a second. Pure.

Source: formats 4.8; B9, C1; RMQ-R238, RMQ-R239.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pystore.controller.liveness.heartbeats import Heartbeat
from pystore.controller.model.limits import FIELD_CHARS, HEARTBEAT_TIMEOUT_MAX_MS
from pystore.controller.model.log_end import LogEnd
from pystore.controller.model.state import SetKey
from pystore.controller.protocol.cluster_id import is_told
from pystore.controller.protocol.extensions import heartbeat_extension_of
from pystore.remoting.codes import ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.controller_headers import BrokerHeartbeat
from pystore.remoting.fields import MissingField, field_values

__all__ = ["BrokerBeat", "heartbeat_of"]

_ADDRESS_MAX = FIELD_CHARS["brokerAddr"]
_PROBLEM_CHARS = 200  # kept for each broker, also of strangers
_JAVA_ENDS = "maxOffset", "confirmOffset"
_ENDS = *_JAVA_ENDS, "pystoreFlushedEnd"


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

    @property
    def ends(self) -> tuple[str, ...]:
        """
        The fields in which the next heartbeats of a process differ most often.
        """
        return _JAVA_ENDS if self.heartbeat.incarnation is None else _ENDS

    def again(self, ends: Sequence[int]) -> Heartbeat:
        """
        Returns another heartbeat of the same process.

        Args:
            ends: the values of `ends`.
        """
        one = self.heartbeat
        return Heartbeat(
            one.broker_id,
            one.connection,
            one.incarnation,
            one.boot_id,
            None,
            LogEnd(self.epoch, ends[0]),
            one.flushed if one.incarnation is None else ends[-1],
            one.priority,
            one.disk_problem,
            one.timeout_ms,
            one.address,
            one.begin,
            one.known_epoch,
            one.known_set_epoch,
            one.is_of_cluster,
            one.disk_used_percent,
            one.is_ill,
            one.promised_epoch,
        )


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
    broker_id, cluster, address, name, epoch, end, _, timeout_ms, priority = (
        field_values(BrokerHeartbeat, request.ext_fields)
    )
    if broker_id < 1:
        raise MissingField(
            f"broker id {broker_id} is none: ids begin with 1",
            ResponseCode.CONTROLLER_INVALID_REQUEST,
        )
    extension = heartbeat_extension_of(request.ext_fields)
    names = cluster or "", name or ""
    position = LogEnd(epoch, end)
    timeout_ms = min(timeout_ms, HEARTBEAT_TIMEOUT_MAX_MS)
    address = (address or "")[:_ADDRESS_MAX]
    if extension is None:
        heartbeat = Heartbeat(
            broker_id,
            connection,
            position=position,
            priority=priority,
            timeout_ms=timeout_ms,
            address=address,
        )
        return BrokerBeat(names, heartbeat, epoch)
    heartbeat = Heartbeat(
        broker_id,
        connection,
        extension.incarnation,
        extension.boot_id,
        None,
        position,
        extension.flushed_end,
        priority,
        " ".join(extension.disk_problem.split())[:_PROBLEM_CHARS],
        timeout_ms,
        address,
        extension.begin,
        extension.known_epoch,
        extension.known_set_epoch,
        is_told(request.ext_fields, cluster_id),
        min(max(extension.disk_used_percent, -1), 100),
        extension.is_ill,
        extension.promised_epoch,
    )
    return BrokerBeat(names, heartbeat, epoch, extension.resigned_epoch)
