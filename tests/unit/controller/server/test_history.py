"""
The last decisions about a set, with requesters and refusals.
"""

from __future__ import annotations

from pystore.controller.model.commands import ApplyId, Elect, SeeEnds, Trigger
from pystore.controller.model.decision import Accepted, Rejected
from pystore.controller.model.events import EndsSeen, IdApplied, MasterElected, SetEvent
from pystore.controller.model.replies import Done
from pystore.controller.model.state import SetState
from pystore.controller.server.history import LENGTH, ChangeHistory
from pystore.remoting.codes import ResponseCode
from pystore.replicaset import Member

NAMES = ("c", "s")
STATE = SetState(*NAMES, version=1, epoch=7)
ELECT = Elect(Trigger.OPERATOR, 2)
REFUSED = Rejected(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, "no")


def _accepted(*changes: SetEvent) -> Accepted:
    return Accepted(changes, Done())


def test_a_decision_has_time_requester_and_command() -> None:
    """The controller itself has no address."""
    history = ChangeHistory(lambda: 1234)
    event = SetEvent(4, MasterElected(Member(2), frozenset({Member(1), Member(3)})))
    history.note("h:1", ELECT, _accepted(event), STATE)
    history.note("", Elect(Trigger.CONTROLLER), REFUSED, STATE)

    first, second = history.rows(NAMES)
    assert {
        "atMillis": 1234,
        "askedBy": "h:1",
        "command": "Elect by operator",
        "epoch": 7,
        "version": 5,
        "event": "MasterElected master=2 candidates=1,3",
        "refusal": None,
    } == first
    assert ("controller", "Refused", "2012: no") == (
        second["askedBy"],
        second["event"],
        second["refusal"],
    )


def test_the_history_is_bounded_and_only_of_existing_sets() -> None:
    """Neither a busy set nor made-up names fill the memory."""
    history = ChangeHistory(int)
    for version in range(LENGTH + 5):
        event = SetEvent(version, IdApplied(version + 1, "h:1;1", "h:1"))
        history.note("h:1", ApplyId(1, "h:1;1"), _accepted(event), STATE)
    history.note("h:1", ELECT, REFUSED, SetState("c", "never"))

    rows = list(history.rows(NAMES))
    assert (LENGTH, LENGTH + 5) == (len(rows), rows[-1]["version"])
    assert [] == list(history.rows(("c", "never")))


def test_repeated_refusals_are_kept_once() -> None:
    """The same refusal is kept once, and notes of ends not at all."""
    history = ChangeHistory(int)
    for _ in range(3):
        history.note("h:1", ELECT, REFUSED, STATE)
        history.note("", SeeEnds(), _accepted(SetEvent(1, EndsSeen(()))), STATE)

    assert 1 == len(list(history.rows(NAMES)))
