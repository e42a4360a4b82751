"""
The reasons of events, as a list of lines.
"""

from __future__ import annotations

from typing import Any

from pystore.events.node_events import (
    FollowingEnded,
    LinkClosed,
    LinkFailed,
    NodeEvent,
)
from pystore.events.node_teller import Tell


def reasons_to(said: list[str]) -> Tell:
    """
    Returns what writes down why a follower had no link, each time.
    """

    def tell(kind: type[NodeEvent], **told: Any) -> None:
        if issubclass(kind, LinkClosed | LinkFailed | FollowingEnded):
            said.append(told["reason"])

    return tell
