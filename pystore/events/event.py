"""
What an event is, and its line for a program that reads the log.

Source: docs/operations.md, *What happened?*.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, ClassVar, TypeVar

from pystore.text import json_keys

__all__ = ["Event", "event_fields", "hand_over", "json_line", "log_to", "time_text"]

_LOGGER = logging.getLogger("pystore")
_E = TypeVar("_E", bound="Event")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """
    A fact, told once, in the thread in which it happens.

    Attributes:
        time_ms: when, ms since 1970.
        level: of the line in the log, as in `logging`.
    """

    time_ms: int
    level: ClassVar[int] = logging.INFO

    @property
    def subject(self) -> str:
        """
        What the fact is about: a store, a broker set, a controller.
        """
        raise NotImplementedError

    @property
    def text(self) -> str:
        """
        The fact in one line, without its subject.
        """
        raise NotImplementedError


def hand_over(event: _E, sink: Callable[[_E], object]) -> None:
    """
    Gives an event to a sink. An error of the sink is logged, and ends nothing: what is
    told works also if the program that listens does not.
    """
    try:
        sink(event)
    except Exception:
        # Any error of a program's own function.
        _LOGGER.warning("%s: on_event failed", event.subject, exc_info=True)


def log_to(logger: logging.Logger, event: Event) -> None:
    """
    Writes an event to a logger, at its level.
    """
    if logger.isEnabledFor(event.level):
        logger.log(event.level, "%s: %s", event.subject, event.text)


def event_fields(event: Event) -> dict[str, Any]:
    """
    Returns what an event tells a program: its attributes under their names in camel
    case (without the time), which JSON can hold.
    """
    names = (one.name for one in fields(event) if one.name != "time_ms")
    return json_keys({name: getattr(event, name) for name in names})


def json_line(event: Event) -> str:
    """
    Returns an event as one line of JSON: ``time`` (ISO 8601, UTC, with ms), ``level``,
    ``event`` (the name of its class), ``subject``, ``text``, and its `event_fields`.
    """
    return json.dumps(
        {
            "time": time_text(event.time_ms),
            "level": logging.getLevelName(event.level).lower(),
            "event": type(event).__name__,
            "subject": event.subject,
            "text": event.text,
            **event_fields(event),
        },
        ensure_ascii=False,
    )


def time_text(time_ms: int) -> str:
    """
    Returns a time in ms since 1970 as ISO 8601, UTC, with ms.
    """
    at = datetime.fromtimestamp(time_ms / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
