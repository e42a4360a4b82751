"""
Looking up brokers in a state.
"""

from __future__ import annotations

from pystore.controller.model.replica import RegisteredBroker, Tombstone
from pystore.controller.model.state import SetState
from pystore.replicaset import AgreedSet, Member


def test_brokers_and_tombstones_are_found_by_id() -> None:
    """A set without brokers does not exist, also with tombstones."""
    state = SetState(
        "c",
        "b",
        replicas=(RegisteredBroker(2, "", ""),),
        tombstones=(Tombstone(1, ""),),
    )

    assert state.replica(2) == state.replicas[0]
    assert state.tombstone(1) == state.tombstones[0]
    assert (None, None) == (state.replica(1), state.tombstone(2))
    assert state.is_known
    assert not SetState("c", "b", tombstones=(Tombstone(1, ""),)).is_known


def test_members_and_candidates_are_listed() -> None:
    """An `all` ack waits for all of them."""
    agreed = AgreedSet(frozenset({Member(1)}), 1, frozenset({Member(2)}))

    assert {Member(1), Member(2)} == SetState("c", "b", agreed=agreed).listed
