"""
What may be asked of a controller about one set of brokers. Pure.

Source: formats 4.2 to 4.13; safety B2, B4, B9, C3; seeds 000 and 001 for ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pystore.controller.model.log_end import NOWHERE, LogEnd
from pystore.controller.model.state import NotedRefusal
from pystore.replicaset import Incarnation, Member

__all__ = [
    "AlterSet",
    "ApplyId",
    "ChangeBroker",
    "ChangePolicy",
    "Clean",
    "Command",
    "Elect",
    "EndLeases",
    "GetNextId",
    "NoteRefusal",
    "Readmit",
    "Recovery",
    "Register",
    "SeeEnds",
    "StepDown",
    "Trigger",
]


class Trigger(Enum):
    """
    Who wants an election.
    """

    BROKER = "broker"
    """A broker without a master; its id is a wish only for a set's first master."""
    OPERATOR = "operator"
    """The broker that is named, or nobody (R52)."""
    CONTROLLER = "controller"
    """Its scan; nobody is named, and finding nobody is recorded (R59)."""


@dataclass(frozen=True, slots=True)
class GetNextId:
    """
    Which id to apply for; changes nothing. Code 1012.
    """


@dataclass(frozen=True, slots=True)
class ApplyId:
    """
    The next id is to be this broker's. Code 1013.

    Attributes:
        broker_id: as it was told.
        check_code: ``ADDRESS;MILLISECONDS``; sent again after a lost answer (R28).
    """

    broker_id: int
    check_code: str


@dataclass(frozen=True, slots=True)
class Recovery:
    """
    What a process says of itself and of its store, as it found it.

    Attributes:
        incarnation: this start.
        boot_id: of the machine.
        position: where the recovered log ends.
        published_end: of ``meta/live`` as the process before left it; -1: not known.
        is_clean: the clean mark held.
        keeps_pages: boot id and mount are those of the process before.
        acks_flushed: it only ever acknowledges what is flushed.
        is_lossy: a cut of its own went below what it had acknowledged (B4).
        is_copy: device or inode of the store differ (A15).
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


@dataclass(frozen=True, slots=True)
class Register:
    """
    A process of a broker is there. Code 1003.

    Attributes:
        broker_id: that it has.
        address: where it is reachable.
        recovery: ``None``: a Java broker, who tells nothing of it.
    """

    broker_id: int
    address: str
    recovery: Recovery | None = None

    @property
    def incarnation(self) -> Incarnation | None:
        """
        Of the process; ``None``: a Java broker.
        """
        return None if self.recovery is None else self.recovery.incarnation


@dataclass(frozen=True, slots=True)
class Elect:
    """
    Somebody is to be master. Code 1002.

    Attributes:
        trigger: who asks.
        broker_id: who asks, or is named by an operator; ``None``: nobody is named.
        is_unclean: whoever is alive will do; what may be lost is recorded.
    """

    trigger: Trigger
    broker_id: int | None = None
    is_unclean: bool = False


@dataclass(frozen=True, slots=True)
class AlterSet:
    """
    The master wants another set, once. Code 1001.

    Attributes:
        master: who asks.
        epoch: of its mastership.
        set_epoch: the version that the change was computed from.
        members: the whole new set.
        candidates: those that stay candidates.
        is_fence: the set stays as it is, only its version rises: afterwards no
            earlier request of unknown outcome can be taken any more.
    """

    master: Member
    epoch: int
    set_epoch: int
    members: frozenset[Member]
    candidates: frozenset[Member] = frozenset()
    is_fence: bool = False


@dataclass(frozen=True, slots=True)
class StepDown:
    """
    A master has given its mastership up, after its last append (B9).

    Attributes:
        master: who.
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
    Brokers are to be forgotten. Code 1011.

    Attributes:
        broker_ids: empty: all of the set.
        with_living: also those that are alive.
    """

    broker_ids: frozenset[int] = frozenset()
    with_living: bool = False


@dataclass(frozen=True, slots=True)
class ChangeBroker:
    """
    An operator changes attributes of a broker; ``None`` leaves one as it is.
    """

    broker_id: int
    is_learner: bool | None = None
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class ChangePolicy:
    """
    An operator changes how the set elects.

    Attributes:
        preferred_id: ``None`` leaves it as it is, 0 prefers nobody.
        is_automatic: ``None`` leaves it as it is.
    """

    preferred_id: int | None = None
    is_automatic: bool | None = None


@dataclass(frozen=True, slots=True)
class Readmit:
    """
    An operator vouches for a broker whose store is a copy, empty, or was cleaned.
    """

    broker_id: int


@dataclass(frozen=True, slots=True)
class SeeEnds:
    """
    What the heartbeats say of ends is to be remembered (B2).
    """


@dataclass(frozen=True, slots=True)
class NoteRefusal:
    """
    A refusal is to be remembered, for people; not every one has to be.
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
    | ChangeBroker
    | ChangePolicy
    | Readmit
    | SeeEnds
    | NoteRefusal
)
