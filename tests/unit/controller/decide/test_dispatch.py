"""
Every command has a decision, and makes none about anything but its own set.
"""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from lib.controller.broker_set_driver import Brokers, alive, start

from pystore.controller.decide.dispatch import decide
from pystore.controller.model.commands import (
    AlterSet,
    ApplyId,
    ChangeBroker,
    ChangePolicy,
    Clean,
    Command,
    DeleteSet,
    DropUnlisted,
    Elect,
    EndLeases,
    GetNextId,
    ImportSet,
    NoteRefusal,
    Readmit,
    Register,
    SeeEnds,
    SetCopies,
    StepDown,
    Trigger,
)
from pystore.controller.model.decision import Accepted, Rejected
from pystore.controller.model.facts import Facts
from pystore.controller.model.replies import Done
from pystore.controller.model.state import NotedRefusal, SetState
from pystore.remoting.codes import ResponseCode
from pystore.replicaset import Member

COMMANDS: list[Command] = [
    AlterSet(Member(1), 1, 1, frozenset({Member(1)})),
    ApplyId(1, "a;1"),
    ChangeBroker(1),
    ChangePolicy(),
    SetCopies(3),
    Clean(),
    DeleteSet(),
    DropUnlisted(frozenset({1})),
    Elect(Trigger.OPERATOR, 1),
    EndLeases(0),
    GetNextId(),
    ImportSet(SetState("cluster", "set")),
    NoteRefusal(NotedRefusal(ResponseCode.CONTROLLER_INVALID_MASTER, "")),
    Readmit(1),
    Register(1, "a", start(1)),
    SeeEnds(),
    StepDown(Member(1), 1),
]


def test_the_commands_here_are_all_there_are() -> None:
    """A new one enters this list."""
    assert set(get_args(Command)) == {type(one) for one in COMMANDS}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: type(one).__name__)
def test_a_command_is_decided_by_its_arguments_alone(command: Command) -> None:
    """The same state, command and facts make the same decision, and no state."""
    brokers = Brokers()
    brokers.join(1)
    brokers.elect(1)
    for state in (SetState("c", "b"), brokers.state):
        facts = Facts(alive(1, 2))
        decision = decide(state, command, facts)

        assert isinstance(decision, Accepted | Rejected)
        assert decision == decide(state, command, facts)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: type(one).__name__)
def test_only_an_application_for_an_id_or_an_import_creates_a_set(
    command: Command,
) -> None:
    """Whatever else is asked about a wrong name leaves no record behind."""
    decision = decide(SetState("c", "b"), command, Facts(alive(1)))
    events = decision.events if isinstance(decision, Accepted) else ()

    assert bool(events) == isinstance(command, ApplyId | ImportSet)


@pytest.mark.parametrize(
    "command", [Clean(frozenset({2})), ChangeBroker(2, is_learner=True)]
)
def test_a_change_of_a_set_that_was_seen_otherwise_is_refused(
    command: Clean | ChangeBroker,
) -> None:
    """
    Its version rises with each change, also of the noted log ends: read it again.
    """
    brokers = Brokers()
    brokers.join(1, start(1))
    brokers.join(2, start(1))
    brokers.elect(1)
    brokers.die(2)
    seen = brokers.state.version
    for other in (seen - 1, seen + 1):
        refusal = brokers.refused(replace(command, seen_version=other))
        assert ResponseCode.SET_CHANGED is refusal.code
        assert f"has version {seen}, not {other}" in refusal.reason
    assert seen == brokers.state.version

    brokers.do(replace(command, seen_version=seen), Done)
    assert seen < brokers.state.version
