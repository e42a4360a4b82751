"""
Events of a store, and the logger that hears them.
"""

from __future__ import annotations

import logging
from dataclasses import fields
from typing import Any

import pytest

from pystore import events


def test_a_program_without_logging_prints_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """
    The package sets no handler but one that does nothing.
    """
    handlers = logging.getLogger("pystore").handlers

    assert [logging.NullHandler] == [type(handler) for handler in handlers]
    assert ("", "") == capfd.readouterr()


_VALUES: dict[str, Any] = {
    "path": "/s", "reason": "why", "error": "", "reasons": ("a", "b"), "is_new": True,
    "segments": ("0",),
}  # fmt: skip


@pytest.mark.parametrize("name", [n for n in events.__all__ if n[0].isupper()])
def test_every_event_is_one_line(name: str) -> None:
    """
    It names what it is about, and can be logged at its level.
    """
    kind = getattr(events, name)
    if not isinstance(kind, type) or kind is events.StoreEvent:
        return
    event = kind(**{f.name: _VALUES.get(f.name, 12345) for f in fields(kind)})

    assert "\n" not in event.text
    assert event.level in (logging.DEBUG, logging.INFO, logging.WARNING)
    numbers = [f.name for f in fields(kind) if f.name not in ("time_ms", *_VALUES)]
    assert not numbers or "12345" in event.text
