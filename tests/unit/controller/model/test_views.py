"""
The views of a set for answers (RMQ-R40, RMQ-R247, RMQ-R248).
"""

from __future__ import annotations

from lib.controller.broker_set_driver import Brokers, start

from pystore.controller.model.views import (
    leadership_of,
    living_leadership,
    replica_info,
    sync_state,
)


def test_a_dead_master_is_recorded_and_not_named_as_living() -> None:
    """A poll returns the recorded master; a registration returns a live one only."""
    brokers = Brokers()
    brokers.join(1, start(1))
    brokers.elect(1)
    brokers.die(1)

    assert leadership_of(brokers.state) is not None
    assert living_leadership(brokers.state, brokers.facts) is None


def test_members_and_other_brokers_have_their_liveness() -> None:
    """By broker id, each with its last address."""
    brokers = Brokers()
    for number in (1, 2, 3):
        brokers.join(number, start(1))
    brokers.elect(2)
    brokers.die(3)
    view = sync_state(brokers.state, brokers.facts)

    assert [(2, "host:2", True)] == [
        (one.broker_id, one.address, one.is_alive) for one in view.in_sync
    ]
    assert [(1, True), (3, False)] == [
        (one.broker_id, one.is_alive) for one in view.not_in_sync
    ]


def test_a_set_without_a_master_has_its_epoch() -> None:
    """RMQ-R77: so that brokers ask for an election."""
    brokers = Brokers()
    brokers.join(1, start(1))
    brokers.elect(1)
    brokers.register(1, start(2))
    info = replica_info(brokers.state)

    assert (None, 2) == (info.leadership, info.epoch)
