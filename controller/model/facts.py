"""
The facts at the moment of a decision, which are no part of the state. Pure.

The caller of a decision reads liveness, time and configuration once: two reads could
disagree (RMQ-R71), and the clock of another machine proves nothing (RMQ-R234,
RMQ-R235).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pystore.controller.model.log_end import NOWHERE, UNTOLD, LogBegin, LogEnd
from pystore.controller.model.replica import RegisteredBroker
from pystore.remoting.codes import LOWEST_PRIORITY
from pystore.replicaset import Incarnation

__all__ = ["Facts", "LastHeartbeat"]


@dataclass(frozen=True, slots=True)
class LastHeartbeat:
    """
    The last heartbeat of a broker.

    Attributes:
        incarnation: of the process that sent it; ``None``: a Java broker.
        position: the end of its log.
        priority: its own election priority; the lower is preferred.
        is_ill: its disk fails; it is elected only if no other broker can be (B9).
        is_connected: the connection of the heartbeat is open. Without it the process
            may be alive nevertheless.
        is_ended: its process has ended, by evidence and not by silence (C3).
        begin: where its log begins (B11).
        known_epoch: of the newest decision that it knows, or the highest that its store
            promised; -1: unknown, as of a Java broker.
        known_set_epoch: of the SyncStateSet of that decision; -1: unknown.
        is_of_cluster: it told the UUID of the record store.
        promised_epoch: below which it acknowledges nothing more: *position* is the end
            of its log since then, or a later one (B6); -1: unknown.
    """

    incarnation: Incarnation | None = None
    position: LogEnd = NOWHERE
    priority: int = LOWEST_PRIORITY
    is_ill: bool = False
    is_connected: bool = True
    is_ended: bool = False
    begin: LogBegin = UNTOLD
    known_epoch: int = -1
    known_set_epoch: int = -1
    is_of_cluster: bool = False
    promised_epoch: int = -1

    @property
    def told_epoch(self) -> int:
        """
        The highest epoch that it knows.
        """
        return max(self.position.epoch, self.known_epoch)


@dataclass(frozen=True, slots=True)
class Facts:
    """
    The facts about one set at one moment.

    Attributes:
        last_heartbeats: of the brokers whose heartbeat is valid, by id.
        former_heartbeats: of the other brokers that were ever heard, by id: their
            process has ended, or is silent for too long.
        may_replace: this controller has led so long that a master without heartbeats
            has no lease any more (C3, RMQ-R226).
        is_unclean_allowed: any live broker may be elected if no better one can be;
            RocketMQ: ``enableElectUncleanMaster``.
    """

    last_heartbeats: Mapping[int, LastHeartbeat] = field(default_factory=dict)
    former_heartbeats: Mapping[int, LastHeartbeat] = field(default_factory=dict)
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
        return _of_process(self.last_heartbeats, replica)

    def has_ended(self, replica: RegisteredBroker | None) -> bool:
        """
        Returns whether the registered process has ended, by evidence (C3).
        """
        if replica is None:
            return False
        former = _of_process(self.former_heartbeats, replica)
        return former is not None and former.is_ended

    def largest_end(self, replica: RegisteredBroker) -> LogEnd:
        """
        Returns the largest log end that is known of the registered process.
        """
        told = (
            one.position
            for some in (self.last_heartbeats, self.former_heartbeats)
            if (one := _of_process(some, replica)) is not None
        )
        return max(replica.seen, replica.recovered, *told)

    def begin(self, replica: RegisteredBroker) -> LogBegin:
        """
        Returns where the log of the registered process begins: as its last heartbeat
        tells, also of a process that has ended, else its registration.
        """
        for some in (self.last_heartbeats, self.former_heartbeats):
            one = _of_process(some, replica)
            if one is not None and one.begin != UNTOLD:
                return one.begin
        return replica.begin

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


def _of_process(
    some: Mapping[int, LastHeartbeat], replica: RegisteredBroker
) -> LastHeartbeat | None:
    """
    Returns the heartbeat of the process that registered, if it sent the one of its
    broker.
    """
    one = some.get(replica.broker_id)
    return one if one is not None and one.incarnation == replica.incarnation else None
