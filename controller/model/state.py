"""
The recorded state of one broker set, as one value. Pure.

It is one record of the record store, so that a decision is one commit. Time and
heartbeats are no part of it (`pystore.controller.model.facts`).

Source: formats 4.15; B1 to B8, C3; RMQ-R37, RMQ-R63, RMQ-R73, RMQ-R81, RMQ-R254,
RMQ-R255.
"""

from __future__ import annotations

from dataclasses import dataclass, field

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
"""Cluster and name of a set: two clusters may have sets of the same name (RMQ-R37)."""

Cause = str
"""Why bytes may be lost: ``unclean`` or ``power``."""


@dataclass(frozen=True, slots=True)
class LossRange:
    """
    A range of the log that an election may have lost (B3, RMQ-R73).

    Attributes:
        epoch: that began with the election.
        start: the end of the new master's log, in bytes; of a range that its log lacks
            below its begin, the begin of the former master's log.
        end: the largest known log end of the set, or the begin of the new master's log,
            exclusive.
        cause: ``unclean``, or ``power`` when the whole set had lost power.
    """

    epoch: int
    start: int
    end: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class NotedRefusal:
    """
    The last recorded refusal, for people (RMQ-R271).

    Attributes:
        code: of the answer.
        reason: one line.
        broker_id: the broker that caused it; 0: unknown.
    """

    code: ResponseCode
    reason: str
    broker_id: int = 0


@dataclass(frozen=True, slots=True)
class SetState:
    """
    One set of brokers.

    Attributes:
        cluster: name of the cluster; with the name it is the key (RMQ-R37).
        name: of the set, RocketMQ's ``brokerName``.
        version: the number of applied events; an event applies to one version only.
        next_id: of the next broker; it never decreases.
        replicas: by broker id, ascending.
        tombstones: of cleaned brokers, ascending; the last few.
        is_founded: it had a master since the set was created or cleaned as a whole.
        master: ``None``: there is none.
        epoch: of the mastership, or of the time without a master; it never decreases.
        agreed: the SyncStateSet.
        resigned: the member that resigned last: elected again only if no other can be.
        unreleased: former masters whose leases may still run (C3).
        preferred_id: of the broker that is preferred among equals; ``None``: none.
        is_automatic: elections need no operator. RocketMQ has no such switch; the key
            is ``allowElectMaster``.
        losses: the last few, oldest first.
        refusal: the last recorded one.
        copies: how many replicas the set should have; 0: as many brokers as have an id
            and are no learners.
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
    copies: int = field(default=0, metadata={"since": 5})

    @property
    def key(self) -> SetKey:
        """
        The key of the set: cluster and name.
        """
        return self.cluster, self.name

    @property
    def is_known(self) -> bool:
        """
        Whether it has brokers, so that RocketMQ's tables would list it.
        """
        return bool(self.replicas)

    @property
    def learners(self) -> frozenset[int]:
        """
        The ids of the brokers that only follow.
        """
        return frozenset(one.broker_id for one in self.replicas if one.is_learner)

    @property
    def wanted_copies(self) -> int:
        """
        How many replicas the set should have.
        """
        return self.copies or len(self.replicas) - len(self.learners)

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
        Returns the tombstone of a cleaned broker by its id.
        """
        same = (one for one in self.tombstones if one.broker_id == broker_id)
        return next(same, None)
