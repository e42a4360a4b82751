"""
The brokers that a decision lists.
"""

from __future__ import annotations

from pystore.ha.decision import Decision
from pystore.replicaset import AgreedSet, Member


def test_members_and_candidates_are_listed() -> None:
    """Acknowledged records may depend on the bytes of either (RMQ-K.3)."""
    agreed = AgreedSet(frozenset({Member(1)}), 4, frozenset({Member(2)}))
    decision = Decision(3, Member(1), "a:1", agreed)

    assert decision.lists(1)
    assert decision.lists(2)
    assert not decision.lists(3)


def test_without_a_known_set_every_broker_may_be_listed() -> None:
    """A missing list is no reason to wipe a log."""
    assert Decision(3, Member(1), "a:1").lists(3)
