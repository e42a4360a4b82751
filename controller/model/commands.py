"""
The commands for one broker set. Pure.

Source: formats 4.2 to 4.13; B2, B4, B9, C3.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pystore.controller.model.log_end import NOWHERE, UNTOLD, LogBegin, LogEnd
from pystore.controller.model.state import NotedRefusal, SetState
from pystore.replicaset import Incarnation, Member

__all__ = [
    "AlterSet",
    "ApplyId",
    "ChangeBroker",
    "ChangePolicy",
    "Clean",
    "Command",
    "DeleteSet",
    "DropUnlisted",
    "Elect",
    "EndLeases",
    "GetNextId",
    "ImportSet",
    "NoteRefusal",
    "Readmit",
    "Recovery",
    "Register",
    "SeeEnds",
    "SetCopies",
    "StepDown",
    "Trigger",
]


class Trigger(Enum):
    """
    The origin of an election.
    """

    BROKER = "broker"
    """A broker without a master; its id counts only for the first master of a set."""
    OPERATOR = "operator"
    """Only the named broker may be elected (RMQ-R52)."""
    CONTROLLER = "controller"
    """The controller's scan; an election without a result is recorded (RMQ-R59)."""


@dataclass(frozen=True, slots=True)
class GetNextId:
    """
    Returns the next id; changes nothing. Code 1012.
    """


@dataclass(frozen=True, slots=True)
class ApplyId:
    """
    Allocates the next id to this broker. Code 1013.

    Attributes:
        broker_id: the answer to `GetNextId`.
        check_code: ``ADDRESS;MILLISECONDS``; sent again after a lost answer (RMQ-R28).
    """

    broker_id: int
    check_code: str


@dataclass(frozen=True, slots=True)
class Recovery:
    """
    What a process reports about itself and the store that it opened.

    Attributes:
        incarnation: this start.
        boot_id: of the machine.
        position: the end of the recovered log.
        published_end: of ``meta/live`` as the previous process left it; -1: unknown.
        is_clean: the clean mark was valid.
        keeps_pages: boot id and mount are those of the previous process.
        acks_flushed: it acknowledges flushed messages only.
        is_lossy: a cut of its own went below what it had acknowledged (B4).
        is_copy: device or inode of the store differ (A15).
        begin: where the log begins (B11).
        starts: of this store: the one that controllers registered last, and the later
            ones without this one; empty: unknown (B1).
    """

    incarnation: Incarnation
    boot_id: str = ""
    position: LogEnd = NOWHERE
    published_end: int = -1
    is_clean: bool = False
    keeps_pages: bool = False
    acks_flushed: bool = False
    is_lossy: bool = False
    is_copy: bool = False
    begin: LogBegin = UNTOLD
    starts: tuple[Incarnation, ...] = ()


@dataclass(frozen=True, slots=True)
class Register:
    """
    Registers a process of a broker. Code 1003.

    Attributes:
        broker_id: of the broker.
        address: of the broker.
        recovery: ``None``: a Java broker, which reports nothing.
        ha_address: where it serves slaves; empty: unknown.
    """

    broker_id: int
    address: str
    recovery: Recovery | None = None
    ha_address: str = ""

    @property
    def incarnation(self) -> Incarnation | None:
        """
        The incarnation of the process; ``None``: a Java broker.
        """
        return None if self.recovery is None else self.recovery.incarnation


@dataclass(frozen=True, slots=True)
class Elect:
    """
    Requests an election. Code 1002.

    Attributes:
        trigger: the origin of the request.
        broker_id: the requester, or the broker that an operator names; ``None``: none.
        is_unclean: any live broker may be elected; the possible loss is recorded.
        handed_over: the process and the epoch of the master that asks for its
            successor: it acknowledges nothing any more once this is accepted (C3).
    """

    trigger: Trigger
    broker_id: int | None = None
    is_unclean: bool = False
    handed_over: tuple[Incarnation, int] | None = None


@dataclass(frozen=True, slots=True)
class AlterSet:
    """
    The master requests another SyncStateSet. Code 1001.

    Attributes:
        master: the requester.
        epoch: of its mastership.
        set_epoch: of the set that the change was computed from.
        members: the whole new set.
        candidates: those that stay candidates.
        is_fence: the set stays the same and only its epoch rises: afterwards no earlier
            request with an unknown outcome can take effect.
        filling: the ids of added members that lack records of the set, by the word of
            the master, whose handshakes with them tell it (B11).
    """

    master: Member
    epoch: int
    set_epoch: int
    members: frozenset[Member]
    candidates: frozenset[Member] = frozenset()
    is_fence: bool = False
    filling: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class StepDown:
    """
    A master has given its mastership up, after its last append (B9).

    Attributes:
        master: that steps down.
        epoch: of the mastership.
    """

    master: Member
    epoch: int


@dataclass(frozen=True, slots=True)
class EndLeases:
    """
    The longest lease has passed since the mastership of this epoch began (C3).
    """

    epoch: int


@dataclass(frozen=True, slots=True)
class Clean:
    """
    Removes brokers from the set. Code 1011.

    Attributes:
        broker_ids: empty: all brokers of the set.
        with_living: also live brokers.
        seen_version: of the set, as the requester saw it; ``None``: any.
    """

    broker_ids: frozenset[int] = frozenset()
    with_living: bool = False
    seen_version: int | None = None


@dataclass(frozen=True, slots=True)
class DropUnlisted:
    """
    Removes brokers that have been silent for long, and were never in a SyncStateSet.
    """

    broker_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class DeleteSet:
    """
    An operator removes the record of a set without live brokers.
    """


@dataclass(frozen=True, slots=True)
class ImportSet:
    """
    An operator imports a record that was exported, or rebuilt from stores.
    """

    state: SetState


@dataclass(frozen=True, slots=True)
class ChangeBroker:
    """
    An operator changes attributes of a broker; ``None`` leaves one as it is.

    Attributes:
        seen_version: of the set, as the requester saw it; ``None``: any.
    """

    broker_id: int
    is_learner: bool | None = None
    priority: int | None = None
    seen_version: int | None = None


@dataclass(frozen=True, slots=True)
class ChangePolicy:
    """
    An operator changes how the set elects.

    Attributes:
        preferred_id: ``None`` leaves it as it is, 0 prefers no broker.
        is_automatic: ``None`` leaves it as it is.
    """

    preferred_id: int | None = None
    is_automatic: bool | None = None


@dataclass(frozen=True, slots=True)
class SetCopies:
    """
    An operator says how many replicas the set should have.

    Attributes:
        copies: 0: as many brokers as have an id and are no learners.
    """

    copies: int


@dataclass(frozen=True, slots=True)
class Readmit:
    """
    An operator vouches for a broker whose store is a copy, empty, or was cleaned.
    """

    broker_id: int


@dataclass(frozen=True, slots=True)
class SeeEnds:
    """
    Records the log ends of the heartbeats (B2).
    """


@dataclass(frozen=True, slots=True)
class NoteRefusal:
    """
    Records a refusal, for people; not every refusal is recorded.
    """

    refusal: NotedRefusal


Command = (
    GetNextId
    | ApplyId
    | Register
    | Elect
    | AlterSet
    | StepDown
    | EndLeases
    | Clean
    | DeleteSet
    | DropUnlisted
    | ImportSet
    | ChangeBroker
    | ChangePolicy
    | SetCopies
    | Readmit
    | SeeEnds
    | NoteRefusal
)
