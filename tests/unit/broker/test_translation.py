"""
Values of the controller and of replication for the same things.
"""

from __future__ import annotations

from pystore.broker.translation import agreed_of, alteration, member_of
from pystore.controller.model import commands, state
from pystore.controller.model import member as listed
from pystore.ha.insync.member import AgreedSet, Member, SetChange
from pystore.metastore.values import Incarnation

BITS = b"\x07" * 16
JAVA, OURS = Member(2), Member(1, (3, BITS))
LISTED_JAVA = listed.Member(2)
LISTED_OURS = listed.Member(1, Incarnation(3, BITS))


def test_a_member_is_the_same_process_in_both() -> None:
    """With its incarnation, if it has one."""
    assert (OURS, JAVA) == (member_of(LISTED_OURS), member_of(LISTED_JAVA))


def test_a_set_has_the_same_members_candidates_and_version() -> None:
    """Each member and candidate stays what it is."""
    committed = state.AgreedSet(
        frozenset({LISTED_OURS}), 9, candidates=frozenset({LISTED_JAVA})
    )
    expected = AgreedSet(frozenset({OURS}), 9, candidates=frozenset({JAVA}))
    assert expected == agreed_of(committed)


def test_a_change_is_asked_for_by_the_master_that_wants_it() -> None:
    """In its incarnation, as a fence if it is one."""
    change = SetChange(
        4, 7, 9, frozenset({OURS, JAVA}), frozenset({Member(3)}), "why", is_fence=True
    )
    expected = commands.AlterSet(
        LISTED_OURS,
        7,
        9,
        frozenset({LISTED_OURS, LISTED_JAVA}),
        frozenset({listed.Member(3)}),
        is_fence=True,
    )
    assert expected == alteration(change, 1)
