"""
What became of a command: events and a reply, or a refusal. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.controller.model.events import Change, SetEvent
from pystore.controller.model.replies import CommandReply
from pystore.controller.model.state import SetState
from pystore.remoting.codes import ResponseCode

__all__ = ["Accepted", "CommandResult", "Rejected", "events_of"]


@dataclass(frozen=True, slots=True)
class Accepted:
    """
    It is done once the events are committed.

    Attributes:
        events: empty: nothing changes.
        reply: as it is then.
    """

    events: tuple[SetEvent, ...]
    reply: CommandReply


@dataclass(frozen=True, slots=True)
class Rejected:
    """
    Nothing changes.

    Attributes:
        code: of the answer.
        reason: one line for people.
        broker_ids: those because of whom (R111).
    """

    code: ResponseCode
    reason: str
    broker_ids: frozenset[int] = frozenset()


CommandResult = Accepted | Rejected


def events_of(state: SetState, *changes: Change) -> tuple[SetEvent, ...]:
    """
    Returns changes as events for a state and for those that follow it.
    """
    return tuple(
        SetEvent(state.version + number, change)
        for number, change in enumerate(changes)
    )
