"""
The recorder of a run: threads tell it what happened, and it fills the timeline. The
thread of the story waits on it, and shows the events meanwhile.

All times are taken under one lock, so the lines of a timeline are in order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from pystore.demo.timeline import MarkKind, Timeline, TimelineEvent

__all__ = ["EventRecorder"]


class EventRecorder:
    """
    Any thread, but `say` and `wait_until`, which show events: one thread.

    Args:
        timeline: is filled.
        seconds: since the start of the run.
        tell: receives each event, in the thread of the story. Its errors end the story.
    """

    def __init__(
        self,
        timeline: Timeline,
        seconds: Callable[[], float],
        tell: Callable[[TimelineEvent], object],
    ) -> None:
        self.timeline = timeline
        self._seconds = seconds
        self._tell = tell
        self._changed = threading.Condition(threading.RLock())
        self._told = 0

    def now(self) -> float:
        """
        Returns seconds since the start.
        """
        return self._seconds()

    def say(
        self, who: str, what: str, mark: MarkKind | None = None, label: str = ""
    ) -> float:
        """
        Records an event, shows it, and returns its time.
        """
        with self._changed:
            at_s = self._note(who, what, mark, label)
            self._tell_all()
        return at_s

    def _note(
        self, who: str, what: str, mark: MarkKind | None = None, label: str = ""
    ) -> float:
        """
        Records an event, which the thread of the story shows later. Under the lock.
        """
        event = TimelineEvent(self._seconds(), who, what, mark, label)
        self.timeline.events.append(event)
        return event.at_s

    def _tell_all(self) -> None:
        events = self.timeline.events
        while self._told < len(events):
            self._told += 1
            self._tell(events[self._told - 1])

    def wait_until(self, found: Callable[[], bool], limit_s: float) -> bool:
        """
        Waits until it holds, shows events, and returns whether it does.

        Args:
            found: is called under the lock; must not block.
            limit_s: how long at most.
        """
        end_s = self._seconds() + limit_s
        with self._changed:
            while True:
                self._tell_all()
                if found():
                    return True
                left_s = end_s - self._seconds()
                if left_s <= 0:
                    return False
                self._changed.wait(left_s)
