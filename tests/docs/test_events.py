"""
docs/operations.md names the events that there are.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path

from pystore.controller.server import controller_events
from pystore.controller.server.controller_events import ControllerEvent, SetFact

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"


def test_each_event_of_a_controller_is_in_the_page_with_its_level() -> None:
    """
    An operator filters by them.
    """
    told = dict(
        re.findall(r"^\| `([A-Z]\w+)` \| (info|warning) \|", PAGE.read_text(), re.M)
    )
    there = {
        name: logging.getLevelName(kind.level).lower()
        for name, kind in vars(controller_events).items()
        if isinstance(kind, type)
        and issubclass(kind, ControllerEvent)
        and kind not in (ControllerEvent, SetFact)
    }

    assert there == {name: one for name, one in told.items() if name in there}
