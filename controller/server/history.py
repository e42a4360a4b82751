"""
The last decisions about each set, for people. Pure.

The leader keeps them in memory, and the next leader starts with an empty history. In
the record they would be written again with each commit. The record has what an operator
needs later: losses, and the epoch of the last election.

Source: RMQ-R271.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

from pystore.controller.model.commands import Command, Elect
from pystore.controller.model.decision import Accepted, CommandResult
from pystore.controller.model.events import EndsSeen, RefusalNoted, SetEvent
from pystore.controller.model.state import SetKey, SetState
from pystore.replicaset import Member

__all__ = ["LENGTH", "ChangeHistory"]

LENGTH = 32
"""The number of decisions that are kept for each set."""

_QUIET = (EndsSeen, RefusalNoted)


@dataclass(frozen=True, slots=True)
class _Noted:
    at_ms: int
    requester: str
    command: Command
    epoch: int
    change: SetEvent | str


class ChangeHistory:
    """
    The decisions of one term. One thread.

    Args:
        wall_ms: returns the time of day, for people only.
    """

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._noted: dict[SetKey, deque[_Noted]] = {}

    def note(
        self, requester: str, command: Command, decision: CommandResult, state: SetState
    ) -> None:
        """
        Keeps the outcome of a command; a set that never existed has no history.

        Args:
            requester: the address of the requester; empty: the controller itself.
            command: that was decided.
            decision: as committed.
            state: of the set after it.
        """
        found: list[SetEvent | str]
        if isinstance(decision, Accepted):
            found = [one for one in decision.events if not _is_quiet(one)]
        else:
            found = [f"{int(decision.code)}: {decision.reason}"]
        if not found or not (state.version or state.key in self._noted):
            return
        kept = self._noted.setdefault(state.key, deque(maxlen=LENGTH))
        now_ms = self._wall_ms()
        for one in found:
            if isinstance(one, str) and _repeats(kept, requester, one):
                continue
            kept.append(_Noted(now_ms, requester, command, state.epoch, one))

    def rows(self, names: SetKey) -> Iterator[dict[str, object]]:
        """
        Yields decisions as JSON has them, oldest first.
        """
        for one in self._noted.get(names, ()):
            is_event = isinstance(one.change, SetEvent)
            yield {
                "atMillis": one.at_ms,
                "askedBy": one.requester or "controller",
                "command": _command_text(one.command),
                "epoch": one.epoch,
                "version": one.change.version + 1
                if isinstance(one.change, SetEvent)
                else None,
                "event": _event_text(one.change) if is_event else "Refused",
                "refusal": one.change if isinstance(one.change, str) else None,
            }


def _repeats(kept: deque[_Noted], requester: str, refusal: str) -> bool:
    """
    Returns whether the last decision was the same refusal: repeated refusals must not
    push other decisions out.
    """
    return bool(kept) and (kept[-1].requester, kept[-1].change) == (requester, refusal)


def _is_quiet(event: SetEvent) -> bool:
    return isinstance(event.change, _QUIET)


def _command_text(command: Command) -> str:
    name = type(command).__name__
    if not isinstance(command, Elect):
        return name
    return f"{name} by {command.trigger.value}{', unclean' * command.is_unclean}"


def _event_text(event: SetEvent | str) -> str:
    """
    Returns the name of an event and the values that identify it.
    """
    assert isinstance(event, SetEvent)
    change = event.change
    parts = [
        f"{one.name}={_value_text(getattr(change, one.name))}"
        for one in fields(change)
        if one.name in _SHOWN
    ]
    return " ".join([type(change).__name__, *parts])


_SHOWN = frozenset(
    {
        "address",
        "broker_id",
        "broker_ids",
        "candidates",
        "is_automatic",
        "is_learner",
        "is_resigned",
        "master",
        "members",
        "preferred_id",
        "priority",
        "standing",
    }
)


def _value_text(value: object) -> str:
    if isinstance(value, Member):
        return str(value.broker_id)
    if isinstance(value, frozenset):
        return ",".join(sorted(map(_value_text, value))) or "-"
    return str(getattr(value, "value", value))
