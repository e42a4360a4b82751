"""
Why a set changed, for people.
"""

from __future__ import annotations

from pystore.ha.insync.set_change import SetChange, change_reason
from pystore.replicaset import AgreedSet, Incarnation, Member

ONE, TWO, THREE = Member(1), Member(2), Member(3)
BOTH = AgreedSet(frozenset({ONE, TWO}), 4)
ALONE = AgreedSet(frozenset({ONE}), 5)
WHY = "broker 2 left the SyncStateSet: its connection closed"
ASKED = SetChange(1, 3, 4, ALONE.members, frozenset(), WHY)


def test_a_change_that_the_master_requested_has_its_reason() -> None:
    """
    Whether the answer came first, or a poll.
    """
    assert WHY == change_reason(BOTH, ALONE, ASKED)


def test_another_change_is_the_controllers() -> None:
    """
    Such as that of an operator who removed a broker.
    """
    third = AgreedSet(frozenset({ONE, THREE}), 6)
    text = (
        "broker 2 left the SyncStateSet; broker 3 joined the SyncStateSet: the "
        "controller decided it"
    )

    assert text == change_reason(BOTH, third, ASKED)
    again = AgreedSet(frozenset({ONE, Member(2, Incarnation(7, bytes(16)))}), 6)
    assert "processes or candidates" in change_reason(BOTH, again, None)


def test_a_newer_version_of_the_same_set_is_no_change() -> None:
    """
    A fence raises the version alone.
    """
    assert "" == change_reason(BOTH, AgreedSet(BOTH.members, 9), ASKED)
