"""
Decides a command: one pure and total function.

Its cost depends on one set only. The events fit the given state: their committer checks
the version of the record, and the term (`pystore.records`).

Source: formats 4; B1 to B9, C1 to C3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pystore.controller.decide.alter_sync_state_set import alter_set
from pystore.controller.decide.broker_ids import apply_id, next_id
from pystore.controller.decide.clean import clean, delete_set, drop_unlisted
from pystore.controller.decide.elect import elect
from pystore.controller.decide.import_set import import_set
from pystore.controller.decide.note import note_refusal, see_ends
from pystore.controller.decide.operator import (
    change_broker,
    change_policy,
    readmit,
    set_copies,
)
from pystore.controller.decide.register import register
from pystore.controller.decide.step_down import end_leases, step_down
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
)
from pystore.controller.model.decision import CommandResult, Rejected
from pystore.controller.model.facts import Facts
from pystore.controller.model.state import SetState
from pystore.remoting.codes import ResponseCode

__all__ = ["decide"]

# Each takes its own type of command, which the type of the table cannot express.
_DECISIONS: dict[type[Command], Callable[[SetState, Any, Facts], CommandResult]] = {
    AlterSet: alter_set,
    ApplyId: apply_id,
    ChangeBroker: change_broker,
    ChangePolicy: change_policy,
    Clean: clean,
    DeleteSet: delete_set,
    DropUnlisted: drop_unlisted,
    Elect: elect,
    EndLeases: end_leases,
    GetNextId: next_id,
    ImportSet: import_set,
    NoteRefusal: note_refusal,
    Readmit: readmit,
    Register: register,
    SeeEnds: see_ends,
    SetCopies: set_copies,
    StepDown: step_down,
}


def decide(state: SetState, command: Command, facts: Facts) -> CommandResult:
    """
    Returns the events and the reply, or the refusal.

    Args:
        state: of the set; for a set that does not exist, an empty one with its name.
        command: to decide.
        facts: at this moment, read once.
    """
    if isinstance(command, ChangeBroker | Clean):
        seen = command.seen_version
        if seen is not None and seen != state.version:
            # What the requester decided on has changed, be it only a noted log end.
            return Rejected(
                ResponseCode.SET_CHANGED,
                f"broker set {state.name} has version {state.version}, not {seen}: "
                "read it again",
            )
    return _DECISIONS[type(command)](state, command, facts)
