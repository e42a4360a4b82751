"""
The result of a command: events and a reply, or a refusal. Pure.
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
    The command takes effect once the events are committed.

    Attributes:
        events: empty: nothing changes.
        reply: valid once they are committed.
    """

    events: tuple[SetEvent, ...]
    reply: CommandReply


@dataclass(frozen=True, slots=True)
class Rejected:
    """
    The command is refused, and nothing changes.

    Attributes:
        code: of the answer.
        reason: one line for people.
        broker_ids: the brokers that caused the refusal (RMQ-R111).
    """

    code: ResponseCode
    reason: str
    broker_ids: frozenset[int] = frozenset()


CommandResult = Accepted | Rejected


def events_of(state: SetState, *changes: Change) -> tuple[SetEvent, ...]:
    """
    Returns changes as events for a state and for the states that follow it.
    """
    return tuple(
        SetEvent(state.version + number, change)
        for number, change in enumerate(changes)
    )
