"""
What a link says of a slave to the in-sync logic.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.ha.wire.codes import AckStatus
from pystore.replicaset import Incarnation


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """
    A slave shook hands and said where it goes on: its session counts from here.

    Attributes:
        broker_id: persistent.
        incarnation: ``None`` for a legacy slave.
        session_id: of this link.
        offset: where its log agrees with ours and goes on; what it holds below is
            ours. ``None``: not said yet (a legacy slave that reported 0).
        is_learner: it counts for nothing.
        is_legacy: its acks never mean flushed.
    """

    broker_id: int
    incarnation: Incarnation | None
    session_id: int
    offset: int | None
    is_learner: bool
    is_legacy: bool


@dataclass(frozen=True, slots=True)
class SessionAcked:
    """
    A slave said what it holds.

    Attributes:
        broker_id: persistent.
        session_id: of this link.
        received_offset: end of the bytes that it holds.
        flushed_offset: durable below; ``None`` from a legacy slave.
        caught_up_ms: our send time of the newest frame whose end of the log it now
            holds (K.3, R97); ``None``: it holds less than any frame told.
        status: what ails it.
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
        is_graceful: the slave said that it leaves.
    """

    broker_id: int
    session_id: int
    is_graceful: bool
