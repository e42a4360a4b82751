"""
Each event changes a state once (RMQ-R112, RMQ-R232; B1).
"""

from __future__ import annotations

import pytest
from lib.controller.broker_set_driver import Brokers, start

from pystore.controller.model.apply import LOSSES_MAX, TOMBSTONES_MAX, apply, apply_all
from pystore.controller.model.commands import Clean, Elect, Trigger
from pystore.controller.model.events import (
    BrokerChanged,
    BrokerRegistered,
    BrokersCleaned,
    Change,
    CopiesChanged,
    EndsSeen,
    IdApplied,
    LeasesEnded,
    MasterElected,
    MastershipEnded,
    PolicyChanged,
    Readmitted,
    RefusalNoted,
    SetChanged,
    SetEvent,
)
from pystore.controller.model.log_end import LogEnd
from pystore.controller.model.replica import LogStanding
from pystore.controller.model.state import LossRange, NotedRefusal, SetState
from pystore.remoting.codes import ResponseCode
from pystore.replicaset import Member

UNKNOWN = Member(9)
CHANGES: list[Change] = [
    IdApplied(1, "code", "host:1"),
    BrokerRegistered(9, "a", None, "", LogStanding.SOUND, LogEnd(), LogEnd()),
    MastershipEnded(is_released=False),
    MasterElected(UNKNOWN),
    SetChanged(frozenset({UNKNOWN}), frozenset()),
    BrokersCleaned(frozenset({9})),
    BrokerChanged(9, is_learner=True, priority=1),
    PolicyChanged(None, is_automatic=True),
    CopiesChanged(3),
    Readmitted(9),
    LeasesEnded(frozenset({UNKNOWN})),
    EndsSeen(((9, LogEnd(1, 1)),)),
    RefusalNoted(NotedRefusal(ResponseCode.CONTROLLER_INVALID_MASTER, "")),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda one: type(one).__name__)
def test_an_event_is_applied_once_and_never_raises(change: Change) -> None:
    """Also an event about an unknown broker; a repeated one changes nothing."""
    state = SetState("c", "b", version=4)
    after = apply(state, SetEvent(4, change))

    assert after.version == 5
    assert apply(after, SetEvent(4, change)) is after
    for early_or_late in (3, 5, 99):
        assert apply(state, SetEvent(early_or_late, change)) is state


def test_events_of_two_decisions_on_one_state_exclude_each_other() -> None:
    """The first committed decision wins; the other changes nothing."""
    state = SetState("c", "b")
    first = SetEvent(0, IdApplied(1, "a;1", "a"))
    second = SetEvent(0, IdApplied(1, "b;1", "b"))

    assert apply_all(state, (first, second)) == apply(state, first)
    assert apply_all(state, (second, first)) == apply(state, second)


def test_an_id_that_is_there_stays_whose_it_is() -> None:
    """RMQ-R34."""
    state = apply(SetState("c", "b"), SetEvent(0, IdApplied(1, "a;1", "a")))
    again = apply(state, SetEvent(1, IdApplied(1, "b;1", "b")))

    assert (state.replicas, state.next_id) == (again.replicas, again.next_id)


def test_losses_and_tombstones_do_not_grow_without_end() -> None:
    """The record of an old set stays small."""
    state = SetState("c", "b")
    for number in range(1, TOMBSTONES_MAX + 9):
        changes = (
            IdApplied(number, f"{number};1", "a"),
            MasterElected(Member(number), losses=(LossRange(number, 1, 2, "unclean"),)),
            BrokersCleaned(frozenset({number})),
        )
        for change in changes:
            state = apply(state, SetEvent(state.version, change))

    assert (TOMBSTONES_MAX, LOSSES_MAX) == (len(state.tombstones), len(state.losses))
    assert state.next_id == TOMBSTONES_MAX + 9


def test_a_cleaned_set_begins_anew() -> None:
    """Any of its new brokers may be its first master (RMQ-R48)."""
    brokers = Brokers()
    brokers.join(1, start(1))
    brokers.elect(1)
    brokers.ask(Clean(with_living=True))
    assert not brokers.state.is_founded

    brokers.join(2, start(1))
    brokers.join(3, start(1))
    brokers.ask(Elect(Trigger.BROKER, 3))
    assert brokers.master.broker_id == 3
