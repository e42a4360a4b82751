"""
Records observations without a decision. Pure.

Source: B2; RMQ-R271.
"""

from __future__ import annotations

from pystore.controller.decide.told_epochs import is_believed
from pystore.controller.model.commands import NoteRefusal, SeeEnds
from pystore.controller.model.decision import Accepted, CommandResult, events_of
from pystore.controller.model.events import EndsSeen, RefusalNoted
from pystore.controller.model.facts import Facts
from pystore.controller.model.replies import Done
from pystore.controller.model.state import SetState

__all__ = ["note_refusal", "see_ends"]


def see_ends(state: SetState, _: SeeEnds, facts: Facts) -> CommandResult:
    """
    Records the log ends of the present heartbeats.
    """
    positions = tuple(
        (one.broker_id, last_heartbeat.position)
        for one in state.replicas
        if (last_heartbeat := facts.last_heartbeat(one)) is not None
        and last_heartbeat.position > one.seen
        and is_believed(state, last_heartbeat.position.epoch)
    )
    return Accepted(events_of(state, EndsSeen(positions)) if positions else (), Done())


def note_refusal(state: SetState, command: NoteRefusal, _: Facts) -> CommandResult:
    """
    Records a refusal, unless it equals the last one.
    """
    if not state.is_known or command.refusal == state.refusal:
        return Accepted((), Done())
    return Accepted(events_of(state, RefusalNoted(command.refusal)), Done())
