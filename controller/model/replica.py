"""
What the controller keeps of one broker of a set. Pure.

Source: formats 4.15; safety B1, B2, B4; R35, R42.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pystore.controller.model.log_end import NOWHERE, LogEnd
from pystore.replicaset import Incarnation, Member

__all__ = ["LogStanding", "RegisteredBroker", "Tombstone"]


class LogStanding(Enum):
    """
    What may be expected of the log of a broker's current process.
    """

    SOUND = "sound"
    """It holds everything that it ever acknowledged."""
    RESTARTED = "restarted"
    """Its restart may have lost the end of it; a master may admit it again."""
    LOSSY = "lossy"
    """It cut by itself what it had acknowledged; a master may admit it again (B4)."""
    COPIED = "copied"
    """Its store is a copy, or was restored; an operator has to admit it first (B1)."""
    WIPED = "wiped"
    """It held bytes once and is empty; an operator has to admit it first."""

    @property
    def needs_operator(self) -> bool:
        """
        Whether a master alone may not admit it.
        """
        return self in (LogStanding.COPIED, LogStanding.WIPED)


@dataclass(frozen=True, slots=True)
class RegisteredBroker:
    """
    One broker of a set.

    Attributes:
        broker_id: persistent, from 1 on; no other broker ever gets it.
        check_code: by which it applied for the id; who shows it again is the same.
        address: ``HOST:PORT`` where it was reachable last.
        incarnation: of the process that registered last; ``None``: none told one.
        counter_max: the highest counter of any incarnation of it.
        boot_id: of the machine when that process registered; empty: not told.
        standing: of that process.
        recovered: where its log ended when it registered.
        seen: the furthest that it was ever known to reach.
        is_learner: it follows, and counts for nothing.
        priority: the lower is preferred among equals; ``None``: what its heartbeats
            say.
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

    @property
    def member(self) -> Member:
        """
        Its current process.
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
    What is left of a broker that was cleaned: its id is never given away again.

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
