"""
How events are numbered.
"""

from __future__ import annotations

from pystore.controller.model.decision import events_of
from pystore.controller.model.events import LeasesEnded, MastershipEnded
from pystore.controller.model.state import SetState


def test_each_event_is_for_the_state_that_the_one_before_makes() -> None:
    """So that they are applied in their order, or not at all."""
    changes = MastershipEnded(is_released=True), LeasesEnded(frozenset())
    events = events_of(SetState("c", "b", version=7), *changes)

    assert [7, 8] == [event.version for event in events]
    assert list(changes) == [event.change for event in events]
