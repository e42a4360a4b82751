"""
Events are told in the order in which they happened, by the thread of the story.
"""

from __future__ import annotations

import threading

from pystore.demo.event_recorder import EventRecorder
from pystore.demo.timeline import MarkKind, Timeline, TimelineEvent


def test_an_event_is_told_at_once_and_kept() -> None:
    """
    With its time, its mark and its label.
    """
    told: list[TimelineEvent] = []
    timeline = Timeline((1,))
    recorder = EventRecorder(timeline, lambda: 2.5, told.append)

    assert 2.5 == recorder.say("demo", "kills", MarkKind.KILL, "kill")
    assert [TimelineEvent(2.5, "demo", "kills", MarkKind.KILL, "kill")] == told
    assert told == timeline.events
    assert 2.5 == recorder.now()


def test_a_wait_ends_when_it_holds_or_its_time_is_over() -> None:
    """
    Another thread's change is seen; without one the limit ends the wait.
    """
    times = iter(range(100))
    recorder = EventRecorder(Timeline((1,)), lambda: next(times), lambda _: None)
    found = threading.Event()

    assert not recorder.wait_until(found.is_set, 0)
    found.set()
    assert recorder.wait_until(found.is_set, 0)
