"""
Everything that a controller remembers of one set of brokers: one value. Pure.

It is one record of the record store, so that a decision is one commit. What time
and heartbeats say is no part of it (`pystore.controller.model.facts`).

Source: formats 4.15; safety B1 to B8, C3; R37, R63, R73, R81, R254, R255.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.controller.model.replica import RegisteredBroker, Tombstone
from pystore.remoting.codes import ResponseCode
from pystore.replicaset import NO_SET, AgreedSet, Member

__all__ = [
    "Cause",
    "LossRange",
    "NotedRefusal",
    "SetKey",
    "SetState",
]

SetKey = tuple[str, str]
"""Cluster and name of a set: names alone may be the same in two clusters (R37)."""

Cause = str
"""Why bytes may be lost: ``unclean`` or ``power``."""


@dataclass(frozen=True, slots=True)
class LossRange:
    """
    A range of the log that an election may have lost (B3, R73).

    Attributes:
        epoch: that began with the election.
        start: where the new master's log ended, in bytes.
        end: where a log of the set is known to have ended, exclusive.
        cause: ``unclean``, or ``power`` when the whole set had lost power.
    """

    epoch: int
    start: int
    end: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class NotedRefusal:
    """
    The refusal that was noted last, for people (R271).

    Attributes:
        code: of the answer.
        reason: one line.
        broker_id: who asked; 0: not known.
    """

    code: ResponseCode
    reason: str
    broker_id: int = 0


@dataclass(frozen=True, slots=True)
class SetState:
    """
    One set of brokers.

    Attributes:
        cluster: name of the cluster; with the name it is the key (R37).
        name: of the set, RocketMQ's ``brokerName``.
        version: how many events made it; an event fits one version only.
        next_id: that the next broker gets; it never falls.
        replicas: by broker id, ascending.
        tombstones: of brokers that were cleaned, ascending; the last few.
        is_founded: it had a master since the whole set was made or cleaned.
        master: who has the mastership; ``None``: nobody.
        epoch: of the mastership, or of the time without; it never falls.
        agreed: the SyncStateSet.
        resigned: who gave the last mastership up: elected again only if nobody else
            can be.
        unreleased: former masters whose leases may still run (C3).
        preferred_id: who is elected among equals; ``None``: nobody in particular.
        is_automatic: elections happen without an operator; RocketMQ has no such
            switch, the key is ``allowElectMaster``.
        losses: the last few, oldest first.
        refusal: the last one that was noted.
    """

    cluster: str
    name: str
    version: int = 0
    next_id: int = 1
    replicas: tuple[RegisteredBroker, ...] = ()
    tombstones: tuple[Tombstone, ...] = ()
    is_founded: bool = False
    master: Member | None = None
    epoch: int = 0
    agreed: AgreedSet = NO_SET
    resigned: Member | None = None
    unreleased: frozenset[Member] = frozenset()
    preferred_id: int | None = None
    is_automatic: bool = True
    losses: tuple[LossRange, ...] = ()
    refusal: NotedRefusal | None = None

    @property
    def key(self) -> SetKey:
        """
        Cluster and name.
        """
        return self.cluster, self.name

    @property
    def is_known(self) -> bool:
        """
        Whether it has brokers, so that RocketMQ's tables would list it.
        """
        return bool(self.replicas)

    @property
    def listed(self) -> frozenset[Member]:
        """
        Members and candidates.
        """
        return self.agreed.members | self.agreed.candidates

    def replica(self, broker_id: int) -> RegisteredBroker | None:
        """
        Returns a broker by its id.
        """
        same = (one for one in self.replicas if one.broker_id == broker_id)
        return next(same, None)

    def tombstone(self, broker_id: int) -> Tombstone | None:
        """
        Returns what is left of a cleaned broker.
        """
        same = (one for one in self.tombstones if one.broker_id == broker_id)
        return next(same, None)
