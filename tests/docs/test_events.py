"""
docs/operations.md names the events that there are.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path

from pystore.controller.server import controller_events
from pystore.controller.server.controller_events import ControllerEvent, SetFact
from pystore.events import node_events, store_events
from pystore.events.event import Event
from pystore.events.node_events import NodeEvent, PeerEvent
from pystore.events.store_events import StoreEvent

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"


def test_each_event_is_in_the_page_with_its_level_and_no_other_one() -> None:
    """
    An operator filters by them.
    """
    told = dict(
        re.findall(
            r"^\| `([A-Z]\w+)` \| (info|warning|error) \|", PAGE.read_text(), re.M
        )
    )
    bases = {ControllerEvent, SetFact, NodeEvent, PeerEvent, StoreEvent, Event}
    there = {
        name: logging.getLevelName(kind.level).lower()
        for module in (controller_events, node_events, store_events)
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, Event) and kind not in bases
    }
    debugging = {name for name, level in there.items() if level == "debug"}

    assert {"LogSynced", "SegmentSealed"} == debugging
    assert all(f"`{name}`" in PAGE.read_text() for name in debugging)
    assert told == {name: one for name, one in there.items() if name not in debugging}
