"""
The facts at the moment of a decision, which are no part of the state. Pure.

The caller of a decision reads liveness, time and configuration once: two reads could
disagree (RMQ-R71), and the clock of another machine proves nothing (RMQ-R234,
RMQ-R235).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pystore.controller.model.log_end import NOWHERE, LogEnd
from pystore.controller.model.replica import RegisteredBroker
from pystore.remoting.codes import LOWEST_PRIORITY
from pystore.replicaset import Incarnation

__all__ = ["Facts", "LastHeartbeat"]


@dataclass(frozen=True, slots=True)
class LastHeartbeat:
    """
    The last heartbeat of a broker, while it is valid.

    Attributes:
        incarnation: of the process that sent it; ``None``: a Java broker.
        position: the end of its log.
        priority: its own election priority; the lower is preferred.
        is_ill: its disk fails; it is elected only if no other broker can be (B9).
    """

    incarnation: Incarnation | None = None
    position: LogEnd = NOWHERE
    priority: int = LOWEST_PRIORITY
    is_ill: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """
    The facts about one set at one moment.

    Attributes:
        last_heartbeats: of the brokers whose heartbeat is valid, by id.
        may_replace: this controller has led so long that a master without heartbeats
            has no lease any more (C3, RMQ-R226).
        is_unclean_allowed: any live broker may be elected if no better one can be;
            RocketMQ: ``enableElectUncleanMaster``.
    """

    last_heartbeats: Mapping[int, LastHeartbeat] = field(default_factory=dict)
    may_replace: bool = True
    is_unclean_allowed: bool = False

    def is_alive(self, replica: RegisteredBroker | None) -> bool:
        """
        Returns whether the registered process sends heartbeats: those of another
        process of that broker do not count (B1).
        """
        return replica is not None and self.last_heartbeat(replica) is not None

    def last_heartbeat(self, replica: RegisteredBroker) -> LastHeartbeat | None:
        """
        Returns the valid heartbeat of the process that registered.
        """
        last_heartbeat = self.last_heartbeats.get(replica.broker_id)
        if last_heartbeat is None or last_heartbeat.incarnation != replica.incarnation:
            return None
        return last_heartbeat

    def position(self, replica: RegisteredBroker) -> LogEnd:
        """
        Returns the log end of the registered process; reports of earlier processes of
        that broker do not count (RMQ-R72).
        """
        last_heartbeat = self.last_heartbeat(replica)
        is_told = last_heartbeat is not None and last_heartbeat.position != NOWHERE
        return (
            last_heartbeat.position if last_heartbeat and is_told else replica.recovered
        )
