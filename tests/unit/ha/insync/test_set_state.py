"""
Agreed, asked for, in doubt.
"""

from __future__ import annotations

import pytest
from lib.ha.replica_set import members

from pystore.errors import LocalViolation
from pystore.ha.insync.set_state import MembershipState
from pystore.replicaset import AgreedSet, Incarnation, Member

ONE = Member(1, Incarnation(1, b"\1" * 16))


def agreement(*listed: int) -> MembershipState:
    """A master of epoch 7, with that set."""
    return MembershipState(ONE, 7, AgreedSet(members(1, *listed), 10))


def test_both_sets_count_until_the_answer() -> None:
    """
    RMQ-R114: an ack waits for the union, a copy counts in the intersection.
    """
    sets = agreement(2)
    sets.ask(members(1, 3), frozenset(), "2 left; 3 is in sync")

    assert members(1, 2, 3) == sets.any_set
    assert members(1) == sets.every_set
    assert 2 == sets.size_max


def test_several_doubts_count_all() -> None:
    """
    RMQ-R119: each lost answer may have been a yes.
    """
    sets = agreement(2)
    sets.unknown(sets.ask(members(1, 2, 3), frozenset(), ""))
    sets.unknown(sets.ask(members(1), frozenset(), ""))
    sets.ask(members(1, 2, 4), frozenset(), "")

    assert members(1, 2, 3, 4) == sets.any_set
    assert members(1) == sets.every_set
    assert 3 == sets.size_max


def test_a_late_refusal_of_a_doubt_ends_that_one_alone() -> None:
    """
    RMQ-R119: also if it arrives twice.
    """
    sets = agreement()
    first = sets.ask(members(1, 2), frozenset(), "")
    sets.unknown(first)
    second = sets.ask(members(1, 2), frozenset(), "")
    sets.unknown(second)
    sets.refused(first)
    sets.refused(first)
    assert members(1, 2) == sets.any_set
    sets.refused(second)

    assert members(1) == sets.any_set


def test_a_newer_version_ends_every_doubt() -> None:
    """
    RMQ-R105, RMQ-R112: what was computed from the older one can only be refused.
    """
    sets = agreement()
    doubt = sets.ask(members(1, 2), frozenset(), "")
    sets.unknown(doubt)
    asked = sets.ask(members(1, 3), frozenset(), "")
    assert sets.adopt(AgreedSet(members(1, 3), 11))
    sets.refused(doubt)
    sets.unknown(asked)

    assert (False, None) == (sets.is_in_doubt, sets.asked)
    assert members(1, 3) == sets.any_set == sets.every_set


def test_candidates_are_waited_for_until_a_change_is_committed() -> None:
    """
    B7: asking to remove one does not remove it.
    """
    sets = MembershipState(ONE, 7, AgreedSet(members(1), 10, members(2)))
    change = sets.ask(members(1), frozenset(), "2 never connected")
    assert not change.is_fence
    assert members(1, 2) == sets.any_set
    sets.adopt(AgreedSet(members(1), 11))

    assert members(1) == sets.any_set


def test_local_violations_are_reported() -> None:
    """
    Two requests at once, a set without the master.
    """
    sets = agreement(2)
    with pytest.raises(LocalViolation, match="the requested set lacks the master"):
        sets.ask(members(2), frozenset(), "oops")
    sets.ask(members(1), frozenset(), "2 left")
    with pytest.raises(LocalViolation, match="attempt 1 has no answer yet"):
        sets.ask(members(1), frozenset(), "2 left")
