"""
The events of a controller: each change of the record of a set, each refusal, and each
change of settings.

Source: RMQ-R271; docs/operations.md, *What happened?*.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, ClassVar

from pystore.controller.model.apply import apply_all
from pystore.controller.model.commands import Command
from pystore.controller.model.decision import Accepted, CommandResult, Rejected
from pystore.controller.model.events import (
    Change,
    EndsSeen,
    MasterElected,
    MastershipEnded,
    RefusalNoted,
)
from pystore.controller.model.sentences import change_text, request_text
from pystore.controller.model.state import SetState
from pystore.events.event import Event, log_to
from pystore.remoting.codes import ResponseCode
from pystore.replicaset import Member

__all__ = [
    "LOGGER",
    "ControllerEvent",
    "SetChangeCommitted",
    "SetCommandRefused",
    "SetDegraded",
    "SetFact",
    "SettingsChanged",
    "log_event",
    "set_events",
]

LOGGER = logging.getLogger("pystore.controller")
"""The default sink."""

_QUIET = (EndsSeen, RefusalNoted)
_SHOWN = frozenset(
    {
        "address",
        "broker_id",
        "broker_ids",
        "candidates",
        "copies",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerEvent(Event):
    """
    A fact that a controller knows.

    Attributes:
        controller: its address.
    """

    controller: str

    @property
    def subject(self) -> str:
        """
        The controller.
        """
        return f"controller {self.controller}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFact(ControllerEvent):
    """
    A fact about a broker set.

    Attributes:
        cluster_name, broker_name: of the set.
        master_epoch: of the set after it.
        asked_by: the address of the requester; ``controller``: the controller itself.
        command: what was asked.
    """

    cluster_name: str
    broker_name: str
    master_epoch: int
    asked_by: str
    command: str

    @property
    def subject(self) -> str:
        """
        The set.
        """
        return f"set {self.broker_name} of cluster {self.cluster_name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetChangeCommitted(SetFact):
    """
    A change of the record of a set is committed.

    Attributes:
        version: of the record with it.
        change: its name.
        values: what identifies it, for programs.
        sentence: what changed, for people.
    """

    version: int
    change: str
    values: dict[str, object]
    sentence: str

    @property
    def text(self) -> str:
        """
        The change and its requester.
        """
        return f"{self.sentence} ({self.command}, asked by {self.asked_by})"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDegraded(SetChangeCommitted):
    """
    A committed change with which the set has no master, or may have lost records.
    """

    level: ClassVar[int] = logging.WARNING


@dataclass(frozen=True, slots=True, kw_only=True)
class SetCommandRefused(SetFact):
    """
    A command was refused, and changed nothing.

    Attributes:
        code: of the answer.
        reason: why, for people.
        broker_ids: the brokers that caused it.
    """

    code: int
    reason: str
    broker_ids: list[int]
    level: ClassVar[int] = logging.WARNING

    @property
    def text(self) -> str:
        """
        The refusal and its requester.
        """
        return (
            f"{self.command}, asked by {self.asked_by}, is refused, {self.code} "
            f"{ResponseCode(self.code).name}: {self.reason}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsChanged(ControllerEvent):
    """
    An administrator changed settings of all controllers.

    Attributes:
        asked_by: the address of the requester.
        settings: the new values, by name.
    """

    asked_by: str
    settings: dict[str, str]
    level: ClassVar[int] = logging.WARNING

    @property
    def text(self) -> str:
        """
        The change and its requester.
        """
        told = ", ".join(f"{name}={one}" for name, one in self.settings.items())
        return f"{self.asked_by} changed {told}"

    @property
    def author(self) -> str:
        """
        The requester and the time, to be kept.
        """
        at = datetime.fromtimestamp(self.time_ms / 1000, UTC)
        return f"{self.asked_by} at {at:%Y-%m-%d %H:%M:%S}Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserChanged(ControllerEvent):
    """
    An operator changed a user.

    Attributes:
        asked_by: the requester.
        user: its name.
        version: of the user after the change.
        roles: its roles; none: it was deleted.
        secrets: how many secrets are valid.
    """

    asked_by: str
    user: str
    version: int
    roles: list[str]
    secrets: int
    level: ClassVar[int] = logging.WARNING

    @property
    def text(self) -> str:
        """
        The user after the change, and who asked for it.
        """
        if not self.secrets:
            return f"{self.asked_by} deleted user {self.user}"
        keys = f"{self.secrets} secret{'s' * (self.secrets > 1)}"
        return (
            f"{self.asked_by} changed user {self.user}: {', '.join(self.roles)}, {keys}"
        )


def set_events(
    before: SetState,
    command: Command,
    decision: CommandResult,
    requester: str,
    *,
    controller: str,
    time_ms: int,
) -> Iterator[SetChangeCommitted | SetCommandRefused]:
    """
    Yields the events of a command; notes of log ends and of refusals are none.

    Args:
        before: the set when it was decided.
        command: to the set.
        decision: as committed.
        requester: the address; empty: the controller itself.
        controller: its own address.
        time_ms: now, ms since 1970.
    """
    given: dict[str, Any] = {
        "time_ms": time_ms,
        "controller": controller,
        "cluster_name": before.cluster,
        "broker_name": before.name,
        "asked_by": requester or "controller",
        "command": request_text(command),
    }
    if isinstance(decision, Rejected):
        yield _refused(before, decision, given)
        return
    yield from _committed(before, decision, given)


def _refused(
    before: SetState, decision: Rejected, given: dict[str, Any]
) -> SetCommandRefused:
    return SetCommandRefused(
        master_epoch=before.epoch,
        code=int(decision.code),
        reason=decision.reason,
        broker_ids=sorted(decision.broker_ids),
        **given,
    )


def _committed(
    state: SetState, decision: Accepted, given: dict[str, Any]
) -> Iterator[SetChangeCommitted]:
    for one in decision.events:
        before, state = state, apply_all(state, (one,))
        if isinstance(one.change, _QUIET):
            continue
        kind = SetDegraded if _is_degraded(one.change) else SetChangeCommitted
        yield kind(
            master_epoch=state.epoch,
            version=state.version,
            change=type(one.change).__name__,
            values=_values(one.change),
            sentence=change_text(before, one.change),
            **given,
        )


def _is_degraded(change: Change) -> bool:
    if isinstance(change, MasterElected):
        return bool(change.losses)
    return isinstance(change, MastershipEnded)


def _values(change: Change) -> dict[str, object]:
    return {
        one.name: _value(getattr(change, one.name))
        for one in fields(change)
        if one.name in _SHOWN
    }


def _value(value: object) -> object:
    if isinstance(value, Member):
        return value.broker_id
    if isinstance(value, frozenset):
        return sorted(map(_value, value), key=str)
    return getattr(value, "value", value)


def log_event(event: Event) -> None:
    """
    Writes an event to `LOGGER`, at its level.
    """
    log_to(LOGGER, event)
