"""
One broker of a set as the controller records it. Pure.

Source: formats 4.15; B1, B2, B4; RMQ-R35, RMQ-R42.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from pystore.controller.model.log_end import NOWHERE, UNTOLD, LogBegin, LogEnd
from pystore.replicaset import Incarnation, Member

__all__ = ["LogStanding", "OriginalProcess", "RegisteredBroker", "Tombstone"]


class LogStanding(Enum):
    """
    The standing of the log of a broker's current process.
    """

    SOUND = "sound"
    """It holds all messages that the broker acknowledged."""
    RESTARTED = "restarted"
    """A restart may have lost its end; a master may admit the broker again."""
    LOSSY = "lossy"
    """The broker cut acknowledged bytes; a master may admit it again (B4)."""
    COPIED = "copied"
    """The store is a copy or restored; an operator has to re-admit it first (B1)."""
    WIPED = "wiped"
    """The store held bytes and is empty; an operator has to re-admit it first."""

    @property
    def needs_operator(self) -> bool:
        """
        Whether an operator has to re-admit it before a master may admit it.
        """
        return self in (LogStanding.COPIED, LogStanding.WIPED)


@dataclass(frozen=True, slots=True)
class OriginalProcess:
    """
    The process of a broker before another store came under its id: a copy, an older
    state, or an empty disk. The store that had this start is the broker's own one.

    Attributes:
        incarnation, counter_max, boot_id, standing: as in `RegisteredBroker`.
    """

    incarnation: Incarnation
    counter_max: int
    boot_id: str
    standing: LogStanding


@dataclass(frozen=True, slots=True)
class RegisteredBroker:
    """
    One broker of a set.

    Attributes:
        broker_id: persistent, from 1 on; no other broker ever gets it.
        check_code: with which it applied for the id; a broker that shows it again is
            the same.
        address: ``HOST:PORT``, the last known one.
        incarnation: of the process that registered last; ``None``: a Java broker.
        counter_max: the highest counter of any incarnation of it.
        boot_id: of the machine when that process registered; empty: unknown.
        standing: of that process.
        recovered: the end of its log when it registered.
        seen: the largest log end ever known.
        is_learner: it follows, and is never a member.
        priority: the lower is preferred among equals; ``None``: that of its heartbeats.
        ha_address: ``HOST:PORT`` where it serves slaves; empty: unknown.
        begin: where its log began when that process registered (B11).
        was_listed: it was a member of a SyncStateSet at some time; records of earlier
            versions do not tell, so it counts as one.
        original: while an operator has to decide about another store under its id.
        strange: the last start of a store that was decided to be another one.
    """

    broker_id: int
    check_code: str
    address: str
    incarnation: Incarnation | None = None
    counter_max: int = 0
    boot_id: str = ""
    standing: LogStanding = LogStanding.SOUND
    recovered: LogEnd = NOWHERE
    seen: LogEnd = NOWHERE
    is_learner: bool = False
    priority: int | None = None
    ha_address: str = field(default="", metadata={"since": 2})
    begin: LogBegin = field(default=UNTOLD, metadata={"since": 2})
    was_listed: bool = field(default=True, metadata={"since": 3})
    original: OriginalProcess | None = field(default=None, metadata={"since": 4})
    strange: Incarnation | None = field(default=None, metadata={"since": 4})

    @property
    def member(self) -> Member:
        """
        The member that is its current process.
        """
        return Member(self.broker_id, self.incarnation)

    @property
    def is_eligible(self) -> bool:
        """
        Whether it may be elected, if it is also listed and alive (B2).
        """
        return self.standing is LogStanding.SOUND and not self.is_learner


@dataclass(frozen=True, slots=True)
class Tombstone:
    """
    The remains of a cleaned broker: its id is never allocated again.

    Attributes:
        broker_id: of the broker.
        check_code: as it was.
        counter_max: as it was.
        seen: as it was.
    """

    broker_id: int
    check_code: str
    counter_max: int = 0
    seen: LogEnd = NOWHERE
