"""
Which changes of role and lease are told, and which are not.
"""

from __future__ import annotations

from typing import Any

from pystore.events.node_events import NodeEvent
from pystore.ha.decision import Decision
from pystore.ha.role import Role
from pystore.ha.role_events import RoleEvents
from pystore.replicaset import Member


class Told:
    """
    The events of a replica.

    Attributes:
        events: what was told.
        made: what tells it.
    """

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.made = RoleEvents(self._tell)

    def _tell(self, kind: type[NodeEvent], **fields: Any) -> None:
        self.events.append((kind.__name__, fields))

    def names(self) -> list[str]:
        """
        Returns the names of the events, and forgets them.
        """
        names = [name for name, _ in self.events]
        self.events.clear()
        return names


def test_a_role_is_told_when_it_has_begun() -> None:
    """
    Not while it is pending, not again while it lasts, and again in a newer epoch.
    """
    told = Told()
    told.made.stands(Role.IDLE, Decision(0))
    told.made.stands(Role.PENDING, Decision(1, Member(2), "h:1"))
    assert [] == told.events
    told.made.stands(Role.FOLLOWING, Decision(1, Member(2), "h:1"))
    told.made.stands(Role.FOLLOWING, Decision(1, Member(2), "h:1"))
    assert [
        (
            "RoleChanged",
            {
                "old": "idle",
                "new": "following",
                "master_epoch": 1,
                "reason": "the controllers elected broker 2",
            },
        )
    ] == told.events
    told.made.stands(Role.FOLLOWING, Decision(2, Member(3), "h:1"))
    told.made.stands(Role.MASTER, Decision(3, Member(1), ""))

    assert 3 == len(told.names())


def test_a_mastership_that_was_given_up_is_told_with_its_reason() -> None:
    """
    Which is not that of the role after it.
    """
    told = Told()
    told.made.stands(Role.MASTER, Decision(3, Member(1), ""))
    told.made.resigned("the disk is full")
    told.made.stands(Role.RESIGNED, Decision(3, Member(1), ""))
    told.made.stands(Role.IDLE, Decision(4))
    reasons = [fields["reason"] for _, fields in told.events]

    assert "the disk is full" == reasons[1]
    assert "the controllers name no master that it can follow" == reasons[2]


def test_a_lease_is_told_once_until_it_ends() -> None:
    """
    Not at each renewal; a controller that gives none is told as well.
    """
    told = Told()
    told.made.leased(1, 0)
    assert [] == told.names()
    told.made.leased(1, 900)
    told.made.leased(1, 950)
    told.made.looked(10)
    assert ["LeaseGranted"] == told.names()
    assert told.made.has_lease
    told.made.looked(0)
    told.made.looked(0)
    assert ["LeaseEnded"] == told.names()
    told.made.leased(1, 900)
    told.made.refused(1)
    told.made.refused(1)
    told.made.looked(0)
    assert ["LeaseGranted", "LeaseRefused"] == told.names()
    told.made.leased(2, None)
    assert [("LeaseGranted", {"master_epoch": 2, "is_limited": False})] == told.events


def test_a_lease_ends_with_the_role_without_an_event_of_its_own() -> None:
    """
    The change of the role tells it.
    """
    told = Told()
    told.made.leased(1, 900)
    told.made.stands(Role.MASTER, Decision(1, Member(1), ""))
    told.made.stands(Role.FOLLOWING, Decision(2, Member(2), "h:1"))
    told.made.looked(0)

    assert ["LeaseGranted", "RoleChanged", "RoleChanged"] == told.names()
    assert not told.made.has_lease
