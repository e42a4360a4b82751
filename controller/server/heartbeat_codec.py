"""
What a broker says of itself once a second, as `pystore.controller.liveness.heartbeats`
keeps it. Pure.

Source: formats 4.8; safety B9, C1; R238, R239.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.controller.liveness.heartbeats import Heartbeat
from pystore.controller.model.log_end import LogEnd
from pystore.controller.model.state import SetKey
from pystore.controller.protocol.extensions import vitals_of
from pystore.remoting.command import RemotingCommand
from pystore.remoting.controller_headers import BrokerHeartbeat
from pystore.remoting.fields import decode_fields

__all__ = ["BrokerBeat", "beat_of"]


@dataclass(frozen=True, slots=True)
class BrokerBeat:
    """
    A heartbeat, and whose.

    Attributes:
        names: of the set.
        heartbeat: for the table of the living.
        epoch: of the last bytes of the broker's log: a master's own.
        resigned_epoch: of a mastership that it gave up; -1: none.
    """

    names: SetKey
    heartbeat: Heartbeat
    epoch: int
    resigned_epoch: int = -1


def beat_of(request: RemotingCommand, connection: int) -> BrokerBeat:
    """
    Returns what a request of code 904 says.

    Args:
        request: as it came.
        connection: the number of the one that it came on.

    Raises:
        MissingField: it names no broker, or says wrong what pystore adds.
    """
    header = decode_fields(BrokerHeartbeat, request.ext_fields)
    vitals = vitals_of(request.ext_fields)
    heartbeat = Heartbeat(
        header.broker_id,
        connection,
        incarnation=vitals.incarnation if vitals else None,
        boot_id=vitals.boot_id if vitals else "",
        position=LogEnd(header.epoch, header.max_offset),
        flushed=vitals.flushed_end if vitals else -1,
        priority=header.election_priority,
        is_ill=bool(vitals and vitals.disk_problem),
        timeout_ms=header.heartbeat_timeout_mills,
    )
    return BrokerBeat(
        (header.cluster_name or "", header.broker_name or ""),
        heartbeat,
        header.epoch,
        vitals.resigned_epoch if vitals else -1,
    )
