"""
Facts about a slave's session, from its link to the in-sync logic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pystore.ha.wire.codes import AckStatus
from pystore.replicaset import Incarnation


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """
    A slave finished its handshake and named its offset: its session counts from here.

    Attributes:
        broker_id: persistent.
        incarnation: ``None`` for a legacy slave.
        session_id: of this link.
        offset: where the slave continues; below it, its log equals the master's.
            ``None``: not known yet (a legacy slave that reported 0).
        is_learner: it counts for nothing.
        is_legacy: its acks do not cover its disk.
        is_filling: it lacks records that the set has, or queue offsets (B11).
    """

    broker_id: int
    incarnation: Incarnation | None
    session_id: int
    offset: int | None
    is_learner: bool
    is_legacy: bool
    is_filling: bool = False


class SessionAcked(NamedTuple):
    """
    A slave acked.

    Attributes:
        broker_id: persistent.
        session_id: of this link.
        received_offset: end of the bytes that it holds.
        flushed_offset: durable below; ``None`` from a legacy slave.
        caught_up_ms: our send time of the newest frame whose end of the log it now
            holds (RMQ-K.3, RMQ-R97); ``None``: it holds less than any frame named.
        status: of its log.
    """

    broker_id: int
    session_id: int
    received_offset: int
    flushed_offset: int | None
    caught_up_ms: int | None
    status: AckStatus


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """
    The session is over.

    Attributes:
        broker_id: persistent.
        session_id: of this link.
        is_graceful: the slave announced the end.
    """

    broker_id: int
    session_id: int
    is_graceful: bool
