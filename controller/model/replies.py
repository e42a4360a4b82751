"""
The replies to commands. Pure.

Source: formats 4.2 to 4.7, 4.12, 4.13.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.controller.model.replica import LogStanding
from pystore.remoting.codes import ResponseCode
from pystore.replicaset import AgreedSet, Member

__all__ = [
    "Applied",
    "BrokerView",
    "CommandReply",
    "Done",
    "Election",
    "MasterRecord",
    "NewSet",
    "NextBrokerId",
    "RegistrationReply",
    "ReplicaInfo",
    "SyncState",
]


@dataclass(frozen=True, slots=True)
class MasterRecord:
    """
    The master of a set.

    Attributes:
        master: with its incarnation.
        address: of the master.
        epoch: of the mastership.
        waits_for_lease: `leader` acks have to wait: the lease of a former master may
            still run (C3).
        ha_address: where it serves slaves; empty: unknown.
    """

    master: Member
    address: str
    epoch: int
    waits_for_lease: bool = False
    ha_address: str = ""


@dataclass(frozen=True, slots=True)
class Applied:
    """
    Answer to 1013.
    """

    broker_id: int


@dataclass(frozen=True, slots=True)
class RegistrationReply:
    """
    Answer to 1003.

    Attributes:
        leadership: of a live master; else ``None`` (RMQ-R40).
        agreed: the set.
        standing: of the broker's log.
    """

    leadership: MasterRecord | None
    agreed: AgreedSet
    standing: LogStanding


@dataclass(frozen=True, slots=True)
class Election:
    """
    Answer to 1002.

    Attributes:
        code: SUCCESS, MASTER_STILL_EXISTS (RMQ-R54) or MASTER_NOT_AVAILABLE (RMQ-R59).
        leadership: ``None``: no broker could be elected.
        agreed: the set.
        addresses: of all brokers of the set, by id; only after an election.
    """

    code: ResponseCode
    leadership: MasterRecord | None
    agreed: AgreedSet
    addresses: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class NewSet:
    """
    Answer to 1001.
    """

    agreed: AgreedSet


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """
    Answer to 1004.

    Attributes:
        leadership: of the recorded master, alive or not; ``None``: none.
        epoch: also without a master.
        agreed: the set.
    """

    leadership: MasterRecord | None
    epoch: int
    agreed: AgreedSet


@dataclass(frozen=True, slots=True)
class BrokerView:
    """
    One broker of a set, for people.
    """

    broker_id: int
    address: str
    is_alive: bool


@dataclass(frozen=True, slots=True)
class SyncState:
    """
    One set of the answer to 1006.

    Attributes:
        info: master, epochs, set.
        in_sync: brokers of the set, ascending.
        not_in_sync: the others, ascending.
    """

    info: ReplicaInfo
    in_sync: tuple[BrokerView, ...]
    not_in_sync: tuple[BrokerView, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """
    The command is done; there is no more to reply.
    """


@dataclass(frozen=True, slots=True)
class NextBrokerId:
    """
    The answer to 1012; no id is allocated by it.
    """

    broker_id: int


CommandReply = NextBrokerId | Applied | RegistrationReply | Election | NewSet | Done
