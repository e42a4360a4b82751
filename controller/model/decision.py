"""
What became of a command: events and a reply, or a refusal. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.controller.model.events import Change, Event
from pystore.controller.model.replies import Reply
from pystore.controller.model.state import SetState
from pystore.remoting.codes import ResponseCode

__all__ = ["Accepted", "Decision", "Rejected", "events_of"]


@dataclass(frozen=True, slots=True)
class Accepted:
    """
    It is done once the events are committed.

    Attributes:
        events: empty: nothing changes.
        reply: as it is then.
    """

    events: tuple[Event, ...]
    reply: Reply


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


Decision = Accepted | Rejected


def events_of(state: SetState, *changes: Change) -> tuple[Event, ...]:
    """
    Returns changes as events for a state and for those that follow it.
    """
    return tuple(
        Event(state.version + number, change) for number, change in enumerate(changes)
    )
