"""
The lines of a service: for people, or as JSON for programs.

A text line is ``TIME LEVEL pystore: TEXT``, a JSON line what
`pystore.events.event.json_line` makes. A line that tells no event has the level
``warning``: it is about what should not happen, or about a start.

Source: docs/operations.md, *What happened?*.
"""

from __future__ import annotations

import json
import logging
from enum import Enum

from pystore.events.event import Event, json_line, time_text

__all__ = ["LOG_FORMATS", "LineFormat", "event_line", "said_line"]

_SAID = "warning"


class LineFormat(Enum):
    """
    The form of all lines of a process.
    """

    TEXT = "text"
    JSON = "json"
    UNTIMED = "untimed"
    """Text without the time: the reader of the lines adds it."""


LOG_FORMATS = (LineFormat.TEXT.value, LineFormat.JSON.value)
"""What the setting ``logFormat`` may be."""


def event_line(event: Event, form: LineFormat) -> str:
    """
    Returns the line of an event, without its newline.
    """
    if form is LineFormat.JSON:
        return json_line(event)
    level = logging.getLevelName(event.level).lower()
    return _text(f"{event.subject}: {event.text}", level, event.time_ms, form)


def said_line(text: str, time_ms: int, form: LineFormat) -> str:
    """
    Returns the line of a text that is no event.

    Args:
        text: for people.
        time_ms: now, ms since 1970.
        form: of the line.
    """
    if form is LineFormat.JSON:
        fields = {
            "time": time_text(time_ms),
            "level": _SAID,
            "event": None,
            "text": text,
        }
        return json.dumps(fields, ensure_ascii=False)
    return _text(text, _SAID, time_ms, form)


def _text(text: str, level: str, time_ms: int, form: LineFormat) -> str:
    # A reason that a peer sent may have newlines, and would forge a line.
    line = f"{level} pystore: {' '.join(text.splitlines())}"
    return line if form is LineFormat.UNTIMED else f"{time_text(time_ms)} {line}"
