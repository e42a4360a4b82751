"""
Messages between brokers and controllers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pystore.controller.liveness.heartbeats import Heartbeat
from pystore.replicaset import AgreedSet, Member

__all__ = ["Beat", "Ended", "Role"]


class Ended(Enum):
    """
    How the process before this one ended, as its store shows.
    """

    CLEAN = "clean"
    KILLED = "killed"
    POWER = "power"


@dataclass(frozen=True, slots=True)
class Beat:
    """
    What a broker says each second, to each controller.

    Attributes:
        heartbeat: for the table of the living.
        epoch: of the mastership that it has; 0: none.
        given_up: the epoch whose mastership it has given up, or -1.
        sent_ms: when, by its clock.
        sent_wall_ms: the same, by its wall clock.
    """

    heartbeat: Heartbeat
    epoch: int
    given_up: int
    sent_ms: int
    sent_wall_ms: int

    @property
    def replica(self) -> Member:
        """
        The sender.
        """
        return Member(self.heartbeat.broker_id, self.heartbeat.incarnation)


@dataclass(frozen=True, slots=True)
class Role:
    """
    What a broker is told.

    Attributes:
        epoch: the newest.
        master: whose it is, or ``None``.
        agreed: the set.
        broker_ids: all brokers of the set.
        lease_ms: for how long after its heartbeat was sent the asker may decide
            `leader`; 0: not longer than it was told before.
    """

    epoch: int
    master: Member | None
    agreed: AgreedSet
    broker_ids: frozenset[int]
    lease_ms: int

    def lists(self, broker_id: int) -> bool:
        """
        Whether a broker is a member or a candidate.
        """
        listed = self.agreed.members | self.agreed.candidates
        return broker_id in {one.broker_id for one in listed}
