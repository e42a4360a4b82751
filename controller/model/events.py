"""
What may happen to a set of brokers: the changes that a decision makes. Pure.

An event carries the version of the state that it was decided on, and fits that one
only (R112, R232): applied twice, or late, it changes nothing.

Source: formats 4.15; safety B1 to B7; R33 to R39, R57 to R59, R109, R254 to R256.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.controller.model.log_end import LogEnd
from pystore.controller.model.replica import LogStanding
from pystore.controller.model.state import LossRange, NotedRefusal
from pystore.replicaset import Incarnation, Member

__all__ = [
    "BrokerChanged",
    "BrokerRegistered",
    "BrokersCleaned",
    "Change",
    "EndsSeen",
    "IdApplied",
    "LeasesEnded",
    "MasterElected",
    "MastershipEnded",
    "PolicyChanged",
    "Readmitted",
    "RefusalNoted",
    "SetChanged",
    "SetEvent",
]


@dataclass(frozen=True, slots=True)
class IdApplied:
    """
    A broker has its id, the next one of the set.

    Attributes:
        broker_id: the one that was next.
        check_code: who shows it again is the same broker.
        address: where it is reachable.
    """

    broker_id: int
    check_code: str
    address: str


@dataclass(frozen=True, slots=True)
class BrokerRegistered:
    """
    A process of a broker is there, or its address is another.

    Attributes:
        broker_id: of the broker.
        address: where it is reachable.
        incarnation: of the process.
        boot_id: of its machine.
        standing: as it was judged.
        recovered: where its log ends.
        seen: the furthest that the broker was known to reach before.
    """

    broker_id: int
    address: str
    incarnation: Incarnation | None
    boot_id: str
    standing: LogStanding
    recovered: LogEnd
    seen: LogEnd


@dataclass(frozen=True, slots=True)
class MastershipEnded:
    """
    Nobody is master, in a new epoch.

    Attributes:
        is_released: the old master has stepped down or its process has ended, so its
            lease is no more.
        is_resigned: it does not want to be elected again.
    """

    is_released: bool
    is_resigned: bool = False


@dataclass(frozen=True, slots=True)
class MasterElected:
    """
    A new mastership, in a new epoch, with a set of itself alone.

    Attributes:
        master: with its incarnation.
        candidates: of the set before, who hold acks back (B7).
        loss: what may be lost by it.
    """

    master: Member
    candidates: frozenset[Member] = frozenset()
    loss: LossRange | None = None


@dataclass(frozen=True, slots=True)
class SetChanged:
    """
    The master has changed its set; who was added is sound from now on (B2, B4).
    """

    members: frozenset[Member]
    candidates: frozenset[Member]


@dataclass(frozen=True, slots=True)
class BrokersCleaned:
    """
    Brokers are forgotten, but for their ids.
    """

    broker_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class BrokerChanged:
    """
    What an operator wants of a broker. A learner leaves the set.
    """

    broker_id: int
    is_learner: bool
    priority: int | None


@dataclass(frozen=True, slots=True)
class PolicyChanged:
    """
    What an operator wants of the set's elections.
    """

    preferred_id: int | None
    is_automatic: bool


@dataclass(frozen=True, slots=True)
class Readmitted:
    """
    An operator vouches for a store that is a copy, empty, or was cleaned: what was
    listed of it is forgotten, and a master may fill and admit it.
    """

    broker_id: int


@dataclass(frozen=True, slots=True)
class LeasesEnded:
    """
    No lease of these former masters runs any more.
    """

    members: frozenset[Member]


@dataclass(frozen=True, slots=True)
class EndsSeen:
    """
    How far brokers reached, by id.
    """

    positions: tuple[tuple[int, LogEnd], ...]


@dataclass(frozen=True, slots=True)
class RefusalNoted:
    """
    Somebody was refused something.
    """

    refusal: NotedRefusal


Change = (
    IdApplied
    | BrokerRegistered
    | MastershipEnded
    | MasterElected
    | SetChanged
    | BrokersCleaned
    | BrokerChanged
    | PolicyChanged
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
        version: of the state that it is for.
        change: what happens.
    """

    version: int
    change: Change
