"""
What a set looks like from outside (R40, R247, R248).
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
    """Who polls is told whom the record names; who registers is not."""
    brokers = Brokers()
    brokers.join(1, start(1))
    brokers.elect(1)
    brokers.die(1)

    assert leadership_of(brokers.state) is not None
    assert living_leadership(brokers.state, brokers.facts) is None


def test_members_and_others_are_told_with_who_is_alive() -> None:
    """By broker id, each where it was reachable last."""
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


def test_without_a_master_the_epoch_is_told() -> None:
    """R77: so that brokers ask for an election."""
    brokers = Brokers()
    brokers.join(1, start(1))
    brokers.elect(1)
    brokers.register(1, start(2))
    info = replica_info(brokers.state)

    assert (None, 2) == (info.leadership, info.epoch)
