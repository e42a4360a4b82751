"""
The events of a broker set: the changes that a decision makes. Pure.

An event carries the version of the state that it was decided on, and applies to that
version only (RMQ-R112, RMQ-R232): a repeated or late event changes nothing.

Source: formats 4.15; B1 to B7; RMQ-R33 to RMQ-R39, RMQ-R57 to RMQ-R59, RMQ-R109,
RMQ-R254 to RMQ-R256.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.controller.model.log_end import UNTOLD, LogBegin, LogEnd
from pystore.controller.model.replica import LogStanding
from pystore.controller.model.state import LossRange, NotedRefusal, SetState
from pystore.replicaset import Incarnation, Member

__all__ = [
    "BrokerChanged",
    "BrokerRegistered",
    "BrokersCleaned",
    "Change",
    "CopiesChanged",
    "EndsSeen",
    "IdApplied",
    "LeasesEnded",
    "MasterElected",
    "MastershipEnded",
    "PolicyChanged",
    "Readmitted",
    "RefusalNoted",
    "SetChanged",
    "SetDeleted",
    "SetEvent",
    "SetImported",
]


@dataclass(frozen=True, slots=True)
class IdApplied:
    """
    A broker got the next id of the set.

    Attributes:
        broker_id: that was next.
        check_code: a broker that shows it again is the same broker.
        address: of the broker.
    """

    broker_id: int
    check_code: str
    address: str


@dataclass(frozen=True, slots=True)
class BrokerRegistered:
    """
    A broker registered from another process or another address.

    Attributes:
        broker_id: of the broker.
        address: of the broker.
        incarnation: of the process.
        boot_id: of its machine.
        standing: of its log.
        recovered: the end of its log.
        seen: the largest log end known before.
        ha_address: where it serves slaves; empty: unknown.
        begin: where its log begins.
        is_return: its store is the broker's own one, which had given way to another.
    """

    broker_id: int
    address: str
    incarnation: Incarnation | None
    boot_id: str
    standing: LogStanding
    recovered: LogEnd
    seen: LogEnd
    ha_address: str = ""
    begin: LogBegin = UNTOLD
    is_return: bool = False


@dataclass(frozen=True, slots=True)
class MastershipEnded:
    """
    A new epoch without a master.

    Attributes:
        is_released: the old master stepped down or its process ended, so it has no
            lease.
        is_resigned: it resigned, and is elected again only as a last choice.
    """

    is_released: bool
    is_resigned: bool = False


@dataclass(frozen=True, slots=True)
class MasterElected:
    """
    A new mastership in a new epoch; the master is the only member.

    Attributes:
        master: with its incarnation.
        candidates: of the previous set; they hold acks back (B7).
        losses: the ranges that the election may lose.
        is_released: the former master handed its mastership over, so its lease has
            ended.
        told_epoch: the highest that brokers tell: the new one is above it.
        others: processes that may have leases of epochs that the record lacks.
    """

    master: Member
    candidates: frozenset[Member] = frozenset()
    losses: tuple[LossRange, ...] = ()
    is_released: bool = False
    told_epoch: int = 0
    others: frozenset[Member] = frozenset()


@dataclass(frozen=True, slots=True)
class SetChanged:
    """
    The master changed its set; added members are sound from now on (B2, B4).
    """

    members: frozenset[Member]
    candidates: frozenset[Member]


@dataclass(frozen=True, slots=True)
class BrokersCleaned:
    """
    Brokers were removed; only their ids stay known.
    """

    broker_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class SetDeleted:
    """
    All brokers and tombstones were removed; only the next id, the epochs and the leases
    that may run stay known.
    """


@dataclass(frozen=True, slots=True)
class SetImported:
    """
    A record was imported into a set without brokers.
    """

    state: SetState


@dataclass(frozen=True, slots=True)
class BrokerChanged:
    """
    An operator changed a broker. A learner leaves the set. Each change of who is one
    raises the SyncStateSet epoch: brokers take the newest decision only.
    """

    broker_id: int
    is_learner: bool
    priority: int | None


@dataclass(frozen=True, slots=True)
class PolicyChanged:
    """
    An operator changed the elections of the set.
    """

    preferred_id: int | None
    is_automatic: bool


@dataclass(frozen=True, slots=True)
class CopiesChanged:
    """
    An operator changed how many replicas the set should have.
    """

    copies: int


@dataclass(frozen=True, slots=True)
class Readmitted:
    """
    An operator vouches for a store that is a copy, empty, or was cleaned: the broker
    leaves the lists, and a master may fill and admit it.
    """

    broker_id: int


@dataclass(frozen=True, slots=True)
class LeasesEnded:
    """
    The leases of these former masters have expired.
    """

    members: frozenset[Member]


@dataclass(frozen=True, slots=True)
class EndsSeen:
    """
    The log ends of brokers, by id.
    """

    positions: tuple[tuple[int, LogEnd], ...]


@dataclass(frozen=True, slots=True)
class RefusalNoted:
    """
    A command was refused.
    """

    refusal: NotedRefusal


Change = (
    IdApplied
    | BrokerRegistered
    | MastershipEnded
    | MasterElected
    | SetChanged
    | BrokersCleaned
    | SetDeleted
    | SetImported
    | BrokerChanged
    | PolicyChanged
    | CopiesChanged
    | Readmitted
    | LeasesEnded
    | EndsSeen
    | RefusalNoted
)


@dataclass(frozen=True, slots=True)
class SetEvent:
    """
    One change of one version of a set.

    Attributes:
        version: of the state that it applies to.
        change: to that state.
    """

    version: int
    change: Change
