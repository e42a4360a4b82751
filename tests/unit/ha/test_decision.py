"""
The brokers that a decision lists.
"""

from __future__ import annotations

from pystore.ha.decision import Decision, with_newer_set
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


def test_the_set_of_the_newer_epoch_is_the_newer_one() -> None:
    """B15: then the version decides; an equal one changes nothing."""
    known = Decision(3, None, "", AgreedSet(frozenset({Member(1)}), 4))
    older = Decision(2, None, "", AgreedSet(frozenset({Member(2)}), 9))
    equal = Decision(3, None, "", AgreedSet(frozenset({Member(3)}), 4))
    newer = Decision(3, None, "", AgreedSet(frozenset({Member(4)}), 5))

    assert [known, known, newer] == [
        with_newer_set(known, one) for one in (older, equal, newer)
    ]


def test_a_newer_epoch_without_a_set_makes_the_set_unknown() -> None:
    """B15: members of the old set may be members of the new one."""
    known = Decision(3, None, "", AgreedSet(frozenset({Member(1)}), 4))

    assert not known.lists(2)
    assert with_newer_set(known, Decision(4)).lists(2)
