"""
The events of a controller, with who asked.
"""

from __future__ import annotations

import json
import logging

import pytest
from lib.controller.broker_set_driver import Brokers, start

from pystore.controller.model.commands import Command, Elect, SeeEnds, Trigger
from pystore.controller.model.decision import Accepted, CommandResult, Rejected
from pystore.controller.model.events import (
    EndsSeen,
    MasterElected,
    MastershipEnded,
    SetChanged,
    SetEvent,
)
from pystore.controller.model.replies import Done
from pystore.controller.model.state import SetState
from pystore.controller.server.controller_events import (
    ControllerEvent,
    SetChangeCommitted,
    SetCommandRefused,
    SetDegraded,
    log_event,
    set_events,
)
from pystore.events.event import json_line
from pystore.remoting.codes import ResponseCode

ELECT = Elect(Trigger.OPERATOR, 2)


def _state() -> SetState:
    brokers = Brokers()
    for number in (1, 2):
        brokers.join(number, start(1))
    return brokers.state


def _events(
    state: SetState, decision: CommandResult, command: Command = ELECT, by: str = "h:1"
) -> list[ControllerEvent]:
    return list(
        set_events(state, command, decision, by, controller="c:1", time_ms=1234)
    )


def _accepted(state: SetState, *changes: object) -> Accepted:
    events = tuple(
        SetEvent(state.version + number, change)  # type: ignore[arg-type]
        for number, change in enumerate(changes)
    )
    return Accepted(events, Done())


def test_each_change_of_a_decision_is_an_event() -> None:
    """
    The second one begins where the first one ends.
    """
    state = _state()
    one, two = (broker.member for broker in state.replicas)
    decision = _accepted(
        state, MasterElected(one), SetChanged(frozenset({one, two}), frozenset())
    )

    first, second = _events(state, decision)
    assert isinstance(first, SetChangeCommitted)
    assert isinstance(second, SetChangeCommitted)
    assert (1, state.version + 1) == (first.master_epoch, first.version)
    assert {
        "time": "1970-01-01T00:00:01.234Z",
        "level": "info",
        "event": "SetChangeCommitted",
        "subject": "set set of cluster cluster",
        "text": "broker 2 joined the SyncStateSet: it is brokers 1, 2 now (election by "
        "an operator, asked by h:1)",
        "controller": "c:1",
        "clusterName": "cluster",
        "brokerName": "set",
        "masterEpoch": 1,
        "askedBy": "h:1",
        "command": "election by an operator",
        "version": state.version + 2,
        "change": "SetChanged",
        "values": {"members": [1, 2], "candidates": []},
        "sentence": "broker 2 joined the SyncStateSet: it is brokers 1, 2 now",
    } == json.loads(json_line(second))


def test_a_refusal_is_an_event() -> None:
    """
    With its code and the brokers that caused it.
    """
    refused = Rejected(
        ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, "nobody", frozenset({3, 1})
    )
    (event,) = _events(_state(), refused, by="")

    assert isinstance(event, SetCommandRefused)
    assert (2012, [1, 3], "controller") == (
        event.code,
        event.broker_ids,
        event.asked_by,
    )
    assert event.text.endswith(
        "asked by controller, is refused, 2012 CONTROLLER_ELECT_MASTER_FAILED: nobody"
    )


def test_notes_of_log_ends_are_no_events() -> None:
    """
    The controller stores them by itself, and often.
    """
    state = _state()

    assert [] == _events(state, _accepted(state, EndsSeen(())), SeeEnds())


def test_the_end_of_a_mastership_without_a_new_one_is_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """
    The set takes no appends.
    """
    state = _state()
    member = state.replicas[0].member
    elected = _accepted(state, MasterElected(member))
    ended = MastershipEnded(is_released=False)
    decision = _accepted(state, MasterElected(member), ended)

    assert isinstance(_events(state, elected)[0], SetChangeCommitted)
    event = _events(state, decision)[1]
    assert isinstance(event, SetDegraded)
    with caplog.at_level(logging.WARNING, "pystore.controller"):
        log_event(event)
    assert caplog.messages == [f"set set of cluster cluster: {event.text}"]
